package web

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/arl/statsviz"
)

// runtimePath is the path of statsviz' charts of the runtime.
const runtimePath = "/weight/runtime/"

// runtimePolicy is the content security policy of that page only: statsviz sets styles in scripts.
const runtimePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

// chartWriteTimeout is the write timeout of a connection.
const chartWriteTimeout = 10 * time.Second

// runtimeCharts are statsviz' charts of the Go runtime. Their source runs only while a client is connected.
type runtimeCharts struct {
	mu     sync.Mutex
	server *statsviz.Server // nil while no client is connected
	conns  map[*chartConn]struct{}
	closed bool
}

// serve serves the paths below runtimePath.
func (c *runtimeCharts) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", runtimePolicy)
	if strings.TrimPrefix(r.URL.Path, runtimePath) != "ws" {
		var files statsviz.Server // serves files without running
		_ = statsviz.Root(runtimePath)(&files)
		files.Index()(w, r)
		return
	}
	l := &chartConn{charts: c}
	s, err := c.connect(l)
	if err != nil {
		plain(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	s.Ws()(&chartResponse{w, l}, r)
	if l.Conn == nil {
		c.disconnect(l) // the request was not a websocket
	}
}

// connect starts the source of the charts for the first connection.
func (c *runtimeCharts) connect(l *chartConn) (*statsviz.Server, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, http.ErrServerClosed
	}
	if c.server == nil {
		s, err := statsviz.NewServer(statsviz.Root(runtimePath))
		if err != nil {
			return nil, fmt.Errorf("start the runtime's charts: %w", err)
		}
		c.server, c.conns = s, make(map[*chartConn]struct{})
	}
	c.conns[l] = struct{}{}
	return c.server, nil
}

// disconnect stops the source of the charts after the last connection.
func (c *runtimeCharts) disconnect(l *chartConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, l)
	if len(c.conns) == 0 && c.server != nil {
		_ = c.server.Close() // it returns no error
		c.server = nil
	}
}

// close stops the charts and closes all connections.
func (c *runtimeCharts) close() {
	c.mu.Lock()
	c.closed = true
	var conns []net.Conn
	for l := range c.conns {
		if l.Conn != nil {
			conns = append(conns, l)
		}
	}
	c.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close() // nothing depends on its result
	}
}

// A chartConn is a websocket connection of the charts. Nothing is read from it, and statsviz does not close it:
// only writes reveal that the client has disconnected.
type chartConn struct {
	net.Conn // nil until it is hijacked; written under charts.mu
	charts   *runtimeCharts
}

// A chartResponse returns the hijacked connection as a chartConn.
type chartResponse struct {
	http.ResponseWriter
	look *chartConn
}

// Hijack implements http.Hijacker.
func (w *chartResponse) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	c := w.look.charts
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close() // the server is closing
		return nil, nil, http.ErrServerClosed
	}
	w.look.Conn = conn
	return w.look, rw, nil
}

// Write implements net.Conn.
func (l *chartConn) Write(b []byte) (int, error) {
	_ = l.SetWriteDeadline(time.Now().Add(chartWriteTimeout))
	n, err := l.Conn.Write(b)
	if err != nil {
		_ = l.Close() // the write error is returned
	}
	return n, err
}

// Close implements net.Conn.
func (l *chartConn) Close() error {
	l.charts.disconnect(l)
	return l.Conn.Close()
}
