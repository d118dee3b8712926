package connlimit

import (
	"fmt"
	"net/http"
)

// Handler returns h with the limit of requests in flight: those above it are refused with 503.
func (l *Limit) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addr := AddressOf(r.RemoteAddr)
		if !l.Acquire(addr) {
			CloseUnread(w, r)
			w.Header().Set("Retry-After", "1")
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, "refuse the request: more than %d requests are in flight, or %d of this address: try again later\n", l.total, l.each)
			return
		}
		defer l.Release(addr)
		h.ServeHTTP(w, r)
	})
}

// CloseUnread makes the server close the connection after the response to a request that is refused before its body
// was read. Otherwise it would read the body before it responds.
func CloseUnread(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
}
