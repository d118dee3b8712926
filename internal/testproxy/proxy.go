package testproxy

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// A Proxy forwards connections to a server. It is safe for concurrent use.
type Proxy struct {
	Addr string // its listener's address

	upstream string
	listener net.Listener
	running  sync.WaitGroup
	left     atomic.Int64 // bytes until it stalls, if positive

	mu      sync.Mutex
	stalled chan struct{} // closed when bytes may pass; nil if not stalled
	silent  *atomic.Bool  // of the connections since the last Silence
	conns   map[net.Conn]bool
	closed  bool
	at      *point // nil: none
}

// A point is where a test acts.
type point struct {
	text  []byte
	after bool
	do    func()
}

// At calls do once, when a client sends bytes that contain text: before the proxy forwards them or, with after, when it has forwarded
// them and not yet read a response.
func (p *Proxy) At(text string, after bool, do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = &point{[]byte(text), after, do}
}

// reached returns the point that the bytes of a client reach, if any.
func (p *Proxy) reached(sent []byte) *point {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.at
	if at == nil || !bytes.Contains(sent, at.text) {
		return nil
	}
	p.at = nil
	return at
}

// Start starts a proxy to a server, which ends with the test.
func Start(tb testing.TB, upstream string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), upstream: upstream, listener: l, silent: new(atomic.Bool), conns: make(map[net.Conn]bool)}
	p.running.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// Stall stops forwarding until Resume.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled == nil {
		p.stalled = make(chan struct{})
	}
}

// StallAfter stops forwarding after about n more bytes in both directions.
func (p *Proxy) StallAfter(n int64) { p.left.Store(n) }

// Resume continues forwarding, including the bytes held back.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled != nil {
		close(p.stalled)
		p.stalled = nil
	}
}

// Silence makes the existing connections forward nothing more, not even their end, as a firewall does that has lost its
// state. Later connections are unaffected.
func (p *Proxy) Silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent.Store(true)
	p.silent = new(atomic.Bool)
}

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close() // both sides notice
	}
}

// SetUpstream makes new connections go to another server.
func (p *Proxy) SetUpstream(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream = addr
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close() // ends accept
	p.Resume()
	p.Cut()
	p.running.Wait()
}

// pass waits until bytes may pass.
func (p *Proxy) pass() {
	for {
		p.mu.Lock()
		stalled := p.stalled
		p.mu.Unlock()
		if stalled == nil {
			return
		}
		<-stalled
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && p.add(client) {
			p.running.Go(func() { p.serve(client) })
		}
	}
}

// add registers a connection for closing; it closes it immediately if the proxy is closed.
func (p *Proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) remove(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close()
}

func (p *Proxy) serve(client net.Conn) {
	defer p.remove(client)
	p.pass()
	p.mu.Lock()
	upstream, silent := p.upstream, p.silent
	p.mu.Unlock()
	server, err := net.Dial("tcp", upstream)
	if err != nil || !p.add(server) {
		return
	}
	defer p.remove(server)
	var back sync.WaitGroup
	back.Go(func() { p.forward(client, server, silent, false) })
	p.forward(server, client, silent, true)
	back.Wait()
}

// forward copies bytes until one side is closed, and closes the other. Once silent is set, it discards the bytes and does
// not close.
func (p *Proxy) forward(to, from net.Conn, silent *atomic.Bool, sent bool) {
	defer func() {
		if !silent.Load() {
			_ = to.Close()
		}
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if left := p.left.Add(int64(-n)); left <= 0 && left+int64(n) > 0 {
			p.Stall()
		}
		var at *point
		if sent {
			at = p.reached(buf[:n])
		}
		if at != nil && !at.after {
			at.do()
		}
		p.pass()
		if n > 0 && !silent.Load() {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if at != nil && at.after {
			at.do()
		}
		if err != nil {
			return
		}
	}
}
