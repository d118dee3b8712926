package embedded

import (
	"net"
	"sync"
	"time"
)

// A trackingListener records the connections it accepted, because the server's Close closes only its listener
// and leaves idle connections, and their goroutines, running.
type trackingListener struct {
	net.Listener
	backoff time.Duration
	closed  chan struct{} // closed by Close
	close   func() error

	mu    sync.Mutex
	conns map[*trackedConn]struct{}
	open  sync.WaitGroup
}

func newTrackingListener(l net.Listener, backoff time.Duration) *trackingListener {
	t := &trackingListener{Listener: l, backoff: backoff, closed: make(chan struct{}), conns: make(map[*trackedConn]struct{})}
	t.close = sync.OnceValue(func() error {
		close(t.closed)
		return l.Close()
	})
	return t
}

// Close implements net.Listener.
func (l *trackingListener) Close() error { return l.close() }

// Accept implements net.Listener. The server calls it again immediately after an error, so errors are delayed
// until the listener is closed.
func (l *trackingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		timer := time.NewTimer(l.backoff)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.closed:
		}
		return nil, err
	}
	t := &trackedConn{Conn: c, owner: l}
	l.mu.Lock()
	l.conns[t] = struct{}{}
	l.mu.Unlock()
	l.open.Add(1)
	return t, nil
}

// closeConns closes every accepted connection and waits until the server has closed each.
func (l *trackingListener) closeConns() {
	l.mu.Lock()
	for c := range l.conns {
		// The server's goroutine notices the closed socket and closes c itself.
		_ = c.Conn.Close()
	}
	l.mu.Unlock()
	l.open.Wait()
}

// A trackedConn notifies its listener when the server has closed it.
type trackedConn struct {
	net.Conn
	owner *trackingListener
	once  sync.Once
}

// Close implements net.Conn.
func (c *trackedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.owner.mu.Lock()
		delete(c.owner.conns, c)
		c.owner.mu.Unlock()
		c.owner.open.Done()
	})
	return err
}
