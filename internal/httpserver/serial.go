package httpserver

import (
	"bytes"
	"net/http"
)

// OneAtATime returns a handler that serves one request at a time from h, and writes the response after the next one has begun, so
// that clients that read slowly delay no others. Requests of clients that have left are not served.
func OneAtATime(h http.Handler) http.Handler {
	turn := make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response := &response{header: w.Header(), code: http.StatusOK}
		select {
		case turn <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		func() {
			defer func() { <-turn }()
			if r.Context().Err() == nil {
				h.ServeHTTP(response, r)
			}
		}()
		w.WriteHeader(response.code)
		_, _ = w.Write(response.body.Bytes()) // the client may have left
	})
}

// A response is kept until it is complete.
type response struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *response) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *response) WriteHeader(code int) { r.code = code }

// Write implements http.ResponseWriter.
func (r *response) Write(b []byte) (int, error) { return r.body.Write(b) }
