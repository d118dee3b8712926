package httpserver

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/taredb/tare/internal/connlimit"
)

// maxPath bounds paths, which have names of labels and identifiers. Texts are in the query or the body.
const maxPath = 4 << 10

// A guard refuses requests that another site made a browser send, regardless of their method. A browser sends
// no credentials of this server with them, but a server on loopback requires none.
type guard struct {
	names   map[string]bool // host names of this server, in lower case, besides localhost
	origins map[string]bool // the same with their ports, as in an Origin header: without one, the scheme's
}

func newGuard(names []string) *guard {
	g := &guard{names: make(map[string]bool, len(names)), origins: make(map[string]bool, len(names))}
	for _, name := range names {
		if name != "" {
			g.names[hostName(name)] = true
			g.origins[strings.ToLower(name)] = true
		}
	}
	return g
}

// wrap returns h behind the guard. It checks only the request's header, so streams and hijacked connections
// pass the same check.
func (g *guard) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case len(r.URL.Path) > maxPath:
			connlimit.CloseUnread(w, r)
			http.Error(w, fmt.Sprintf("refuse the request: its path has %d bytes, at most %d are allowed", len(r.URL.Path), maxPath), http.StatusRequestURITooLong)
		case !g.ownHost(r.Host):
			forbid(w, r, "refuse the request: its Host header "+quoted(r.Host)+" is no known name of this server: "+
				"use an IP address or localhost, or start the server with option http-allowed-hosts and the name")
		case !g.ownPage(r):
			forbid(w, r, "refuse the request: "+pageOf(r)+": behind a proxy, "+
				"start the server with option http-allowed-hosts and the proxy's host name, with its port unless that is 80 or 443")
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// ownHost reports whether no other site can have this Host header. A name under foreign control may resolve
// to this machine, and a page of that name would have the same origin as this server; a page whose host is an
// address came from that address. Browsers never omit the header.
func (g *guard) ownHost(host string) bool {
	if !hasPort(host) {
		return false
	}
	name := hostName(host)
	if name == "" || name == "localhost" || g.names[name] {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Zone() == "" // a zone is a text of the client, which no URL of a browser has
}

// hasPort reports whether the part after the host, if there is one, is a port.
func hasPort(host string) bool {
	_, port, err := net.SplitHostPort(host)
	if err != nil || port == "" { // without a port
		return true
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// ownPage reports whether a browser sent r for a page of this server or for its user, or whether the client
// is not a browser. Following a link from another site is allowed: the other site cannot read the page.
func (g *guard) ownPage(r *http.Request) bool {
	if origins := r.Header.Values("Origin"); len(origins) > 0 {
		return len(origins) == 1 && g.ownOrigin(origins[0], r.Host)
	}
	site := r.Header.Get("Sec-Fetch-Site")
	if site == "" || site == "same-origin" || site == "none" {
		return true
	}
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	return read && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// pageOf describes the page whose request is refused.
func pageOf(r *http.Request) string {
	if origins := r.Header.Values("Origin"); len(origins) > 0 {
		return "it comes from a page of another site, with the Origin header " + quoted(origins[0])
	}
	return "it comes from a page of another site, with the Host header " + quoted(r.Host)
}

// quoted returns the beginning of a client's text as a literal of printable ASCII.
func quoted(s string) string {
	const most = 255 // bytes of the longest host name
	return strconv.QuoteToASCII(s[:min(len(s), most)])
}

// ownOrigin reports whether an Origin header names this server: by the Host header's name and port, or by an
// allowed name and port, as behind a proxy. Another port of the same host is another server, and another scheme a page that
// no HTTP server has sent, such as that of an extension or of an application.
func (g *guard) ownOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Path != "" {
		return false // "null" is an unknown origin
	}
	return strings.EqualFold(u.Host, host) || g.origins[strings.ToLower(u.Host)]
}

// hostName returns the host of host or host:port, in lower case, without brackets and final dot.
func hostName(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// forbid responds to a request of an API in the format of Prometheus' HTTP API, whose clients show its text, and to
// others as text.
func forbid(w http.ResponseWriter, r *http.Request, text string) {
	body, kind := []byte(text), "text/plain; charset=utf-8"
	if strings.Contains(r.URL.Path, "/api/") {
		kind = "application/json"
		var err error
		if body, err = json.Marshal(struct {
			Status    string `json:"status"`
			ErrorType string `json:"errorType"`
			Error     string `json:"error"`
		}{"error", "forbidden", text}); err != nil {
			panic("BUG: marshal an error: " + err.Error())
		}
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusForbidden)
	_, _ = w.Write(append(body, '\n')) // a failed write means that the client disconnected
}
