package embedded

import (
	"net"
	"sync"
	"time"
)

// A trackingListener remembers the connections it accepted, because the server's Close
// ends only its listener and leaves idle connections, and their goroutines, behind.
type trackingListener struct {
	net.Listener
	backoff time.Duration

	mu    sync.Mutex
	conns map[*trackedConn]struct{}
	open  sync.WaitGroup
}

func newTrackingListener(l net.Listener, backoff time.Duration) *trackingListener {
	return &trackingListener{Listener: l, backoff: backoff, conns: make(map[*trackedConn]struct{})}
}

// Accept implements net.Listener.
func (l *trackingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		time.Sleep(l.backoff)
		return nil, err
	}
	t := &trackedConn{Conn: c, owner: l}
	l.mu.Lock()
	l.conns[t] = struct{}{}
	l.mu.Unlock()
	l.open.Add(1)
	return t, nil
}

// closeConns ends every accepted connection and waits until the server let go of each.
func (l *trackingListener) closeConns() {
	l.mu.Lock()
	for c := range l.conns {
		// The server's goroutine sees the closed socket and closes c itself.
		_ = c.Conn.Close()
	}
	l.mu.Unlock()
	l.open.Wait()
}

// A trackedConn tells its listener when the server has closed it.
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
