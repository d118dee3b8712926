package gateway_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestPartlySent has a backend that reads no more than a part of the statements that are sent behind one, as its socket's buffers are
// full. Meanwhile a session is closed in some way. All others get their rows.
func TestPartlySent(t *testing.T) {
	cert, err := mysqlconn.SelfSignedCertificate()
	must(t, err)
	t.Run("without TLS", func(t *testing.T) { testPartlySent(t, nil) })
	t.Run("TLS", func(t *testing.T) { testPartlySent(t, &cert) })
}

func testPartlySent(t *testing.T, cert *tls.Certificate) {
	for name, end := range map[string]func(p *partlySent) (ended int){
		"nothing ends":              func(*partlySent) int { return -1 },
		"the last one's statement":  func(p *partlySent) int { return p.kill(p.last(), false) },
		"the last one's session":    func(p *partlySent) int { return p.kill(p.last(), true) },
		"the last one hangs up":     func(p *partlySent) int { return p.hangUp(p.last()) },
		"the second one's session":  func(p *partlySent) int { return p.kill(1, true) },
		"the first one's session":   func(p *partlySent) int { return p.kill(0, true) },
		"the first one hangs up":    func(p *partlySent) int { return p.hangUp(0) },
		"the connection is lost":    func(p *partlySent) int { p.lose(); return 0 },
		"one in the queue hangs up": func(p *partlySent) int { return p.hangUp(len(p.clients) - 1) },
		"all in the queue hang up": func(p *partlySent) int { // so that none of them writes the rest with its own statement
			first := p.last() + 1
			for n := first; n < len(p.clients); n++ {
				p.hangUp(n)
			}
			p.clients = p.clients[:first]
			return -1
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPartlySent(t, cert)
			ended := end(p)
			p.release()
			for i := range p.clients {
				got := testwait.Receive(t, "a response", p.results[i])
				if want := fmt.Sprintf("r%d", i); (got == want) == (i == ended) {
					t.Errorf("client %d of %d: %s, ended %d", i, len(p.clients), got, ended)
				}
			}
			if got := partlyRead(t, p.dial(), 99); got != "r99" {
				t.Errorf("afterwards: %s", got)
			}
		})
	}
}

// A partlySent is clients whose statements are on one connection, of which the socket has taken a part.
type partlySent struct {
	*rig
	t       *testing.T
	clients []*mysqlconn.Client
	results []chan string
	stalls  atomic.Bool
	going   chan struct{}
	release func()

	mu   sync.Mutex
	conn net.Conn // of the stalled statement
}

func newPartlySent(t *testing.T, cert *tls.Certificate) *partlySent {
	const clients, buffer = 24, 4 << 10
	p := &partlySent{t: t, going: make(chan struct{})}
	p.release = sync.OnceFunc(func() { close(p.going) })
	t.Cleanup(p.release)
	var closes atomic.Bool
	addr := testscript.Start(t, keeperTLS(cert, &closes, func(c *mysqlconn.Conn, sql string) bool {
		id, ok := strings.CutPrefix(sql, "SELECT v FROM t WHERE id = ")
		if !ok {
			return false
		}
		id, _, _ = strings.Cut(id, " ")
		if p.stalls.CompareAndSwap(true, false) {
			p.mu.Lock()
			p.conn = c.Socket()
			p.mu.Unlock()
			receiveAtMost(c.Socket(), buffer)
			<-p.going
		}
		value := "r" + id
		_, _ = c.Write(testscript.Packets(1, []byte{1}, testscript.Column, oldEnd, append([]byte{byte(len(value))}, value...), oldEnd))
		return true
	}))
	p.rig = startGateway(t, addr, func(o *gateway.Options) {
		o.Loops, o.Observers = 1, nil
		if cert != nil {
			o.Backend.TLS, o.ClientTLS = mysqlconn.TLSRequired, gateway.ClientTLSPreferred
		}
		o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err == nil {
				err = c.(*net.TCPConn).SetWriteBuffer(buffer)
			}
			return c, err
		}
		o.KillQuery = func(string, uint32) error { return errors.New("no control account") }
		o.Pool = &gateway.PoolOptions{Max: 1, Depth: clients, Wait: testwait.Limit, Password: func(string) (string, bool) { return testmysql.Password, true }}
	})
	p.WaitBehind(time.Hour)
	for range clients {
		p.clients, p.results = append(p.clients, p.dial()), append(p.results, make(chan string, 1))
	}
	for range 40 { // short until now
		if got := partlyRead(t, p.clients[0], 5); got != "r5" {
			t.Fatal(got)
		}
	}
	p.stalls.Store(true)
	for i, c := range p.clients {
		go func() { p.results[i] <- partlyRead(t, c, i) }()
		testwait.Until(t, "the statement of a client", func() bool { return len(p.Busy(clients, 0).Sessions) == i+1 })
		if i == 0 {
			testwait.Until(t, "the stall", func() bool { return !p.stalls.Load() })
		}
	}
	user := testmysql.RootUser
	testwait.UntilState(t, "clients that find the socket full", func() (string, bool) {
		queued, sent := p.metric(t, "tare_pool_queue", user), p.metric(t, "tare_pool_pipelined_total", user)
		return fmt.Sprintf("%v wait, %v were sent, %d are busy", queued, sent, len(p.Busy(clients, 0).Sessions)), queued > 0 && sent+queued == clients-1
	})
	return p
}

// receiveAtMost bounds what the system receives for a connection that is not read, which may have grown.
func receiveAtMost(c net.Conn, bytes int) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	_ = c.(*net.TCPConn).SetReadBuffer(bytes) // if it fails, the test waits for a full socket
}

func (p *partlySent) dial() *mysqlconn.Client { return openDialogue(p.t, p.addr, basicCaps).Client }

// partlyRead reads a row by a statement of almost the length of those that are sent behind others.
func partlyRead(t *testing.T, c *mysqlconn.Client, id int) (value string) {
	_, err := c.Query(t.Context(), fmt.Sprintf("SELECT v FROM t WHERE id = %d AND v <> '%s'", id, strings.Repeat("x", 4000)), func(r mysqlwire.TextRow) error {
		value = string(r[0])
		return nil
	})
	if err != nil {
		return "lost: " + err.Error()
	}
	return value
}

// last returns the number of the client whose statement is the last one that was sent.
func (p *partlySent) last() int {
	return int(p.metric(p.t, "tare_pool_pipelined_total", testmysql.RootUser))
}

// kill kills the statement of a client, or its session.
func (p *partlySent) kill(n int, whole bool) int {
	all := p.Busy(len(p.clients), 0).Sessions
	_, err := p.Kill(gateway.Kill{Session: all[n].Number, Command: all[n].Command, Whole: whole})
	must(p.t, err)
	if n > 0 {
		testwait.Until(p.t, "the end of the statement", func() bool { return len(p.results[n]) == 1 })
	}
	return n
}

func (p *partlySent) hangUp(n int) int {
	before := len(p.Busy(len(p.clients), 0).Sessions)
	must(p.t, p.clients[n].Socket().(*net.TCPConn).SetLinger(0))
	p.clients[n].Close()
	testwait.Until(p.t, "the end of the session", func() bool { return len(p.Busy(len(p.clients), 0).Sessions) < before })
	return n
}

// lose closes the connection at the backend.
func (p *partlySent) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn.Close()
	testwait.Until(p.t, "the end of the statement", func() bool { return len(p.results[0]) == 1 })
}
