package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/sqlplan"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testmysql.Main(m),
		goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon")) // sqlparser's log
}

// A rig is a gateway under test.
type rig struct {
	*Server
	addr    string
	records *recorder

	expectedPanics uint64
}

// A recorder keeps the observed records.
type recorder struct {
	mu   sync.Mutex
	list []querylog.Record
	text []string // normalized text of each record
	errs []string
	more *sync.Cond
}

func newRecorder() *recorder {
	r := &recorder{}
	r.more = sync.NewCond(&r.mu)
	return r
}

func (r *recorder) Observe(rec *querylog.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, *rec)
	r.text = append(r.text, string(rec.Normalized))
	r.errs = append(r.errs, string(rec.ErrorText))
	r.more.Broadcast()
}

// wait returns the record with index i as soon as it exists.
func (r *recorder) wait(t *testing.T, i int) (querylog.Record, string, string) {
	t.Helper()
	stop := time.AfterFunc(10*time.Second, func() { r.more.Broadcast() })
	defer stop.Stop()
	until := time.Now().Add(10 * time.Second)
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.list) <= i {
		if time.Now().After(until) {
			t.Fatalf("%d records after 10 s, want %d: %q", len(r.list), i+1, r.text)
		}
		r.more.Wait()
	}
	return r.list[i], r.text[i], r.errs[i]
}

// awaitQueries waits until the gateway has forwarded n COM_QUERY.
func (r *rig) awaitQueries(t *testing.T, n uint64) {
	t.Helper()
	testwait.Equal(t, "the statements to be passed on", n, func() uint64 {
		return r.metrics.sum(func(s *stripe) uint64 { return s.commands[mysqlwire.ComQuery].Load() })
	})
}

// startGateway runs a gateway in front of the backend until the test ends, and checks that it releases
// everything at its end.
func startGateway(t testing.TB, backend string, change func(*Options)) *rig {
	t.Helper()
	planner, err := sqlplan.New(sqlplan.Options{CacheBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	log, err := querylog.New(querylog.Options{RingBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{records: newRecorder()}
	o := Options{
		Backend: Backend{Addr: backend}, Planner: planner, Log: log, Observers: []Observer{r.records},
		Diag: slog.New(slog.DiscardHandler),
	}
	if os.Getenv("TARE_TEST_LOG") != "" {
		o.Diag = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if change != nil {
		change(&o)
	}
	if r.Server, err = New(o); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		r.Shutdown(ctx)
		if err := testwait.Receive(t, "Serve to return", served); err != nil {
			t.Errorf("Serve: %v", err)
		}
		if err := log.Close(ctx); err != nil {
			t.Errorf("close the log: %v", err)
		}
		if n := r.metrics.panics.Load(); n != r.expectedPanics {
			t.Errorf("%d sessions panicked, want %d", n, r.expectedPanics)
		}
		if n := r.Sessions(); n != 0 {
			t.Errorf("%d sessions after Shutdown", n)
		}
		if _, lent := r.BufferBytes(); lent != 0 {
			t.Errorf("%d bytes of relay buffers were not given back", lent)
		}
	})
	return r
}

// startScript runs a backend that serves each connection, numbered from 0, by a script. A
// script that returns closes its connection.
func startScript(t testing.TB, script func(n int, c *mysqlconn.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := make(map[net.Conn]bool)
	wg.Go(func() {
		for n := 0; ; n++ {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[nc] = true
			mu.Unlock()
			wg.Go(func() {
				script(n, mysqlconn.New(nc))
				nc.Close()
				mu.Lock()
				delete(open, nc)
				mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for nc := range open {
			nc.Close()
		}
		mu.Unlock()
		testwait.Group(t, "the scripts to return", &wg)
	})
	return l.Addr().String()
}

const scriptCaps = mysqlwire.CapLongPassword | mysqlwire.CapProtocol41 | mysqlwire.CapConnectWithDB |
	mysqlwire.CapSecureConnection | mysqlwire.CapPluginAuth | mysqlwire.CapTransactions |
	mysqlwire.CapMultiStatements | mysqlwire.CapMultiResults | mysqlwire.CapLocalFiles | mysqlwire.CapDeprecateEOF

// greeting returns the scripted backend's greeting.
func greeting() []byte {
	h := mysqlwire.Handshake{
		ProtocolVersion: 10, ServerVersion: []byte("8.4.0-script"), ConnectionID: 7,
		AuthData: []byte("12345678901234567890"), Capabilities: scriptCaps, Charset: 45,
		Status: mysqlwire.StatusAutocommit, AuthPlugin: []byte("mysql_native_password"),
	}
	return h.AppendTo(nil)
}

func okPacket() []byte { return []byte{0, 0, 0, byte(mysqlwire.StatusAutocommit), 0, 0, 0} }

// scriptLogin is the backend's part of a successful login.
func scriptLogin(c *mysqlconn.Conn) bool {
	if c.WriteMessage(greeting()) != nil {
		return false
	}
	if _, err := c.ReadMessage(1 << 16); err != nil {
		return false
	}
	return c.WriteMessage(okPacket()) == nil
}

// scriptCommand returns the next command, or nil at the end.
func scriptCommand(c *mysqlconn.Conn) []byte {
	for {
		c.Seq = 0
		p, err := c.ReadMessage(64 << 20)
		if err != nil || p[0] == byte(mysqlwire.ComQuit) {
			return nil
		}
		if string(p[1:]) != modesQuery {
			return p
		}
		if _, err := c.Write(modesResult); err != nil {
			return nil
		}
	}
}

// modesResult is a scripted backend's response to modesQuery, for clients with CapDeprecateEOF.
var modesResult = packetBytes(1, []byte{3}, aColumn, aColumn, aColumn, []byte("\x07utf8mb4\x00\x00"), anEnd)

// scriptServe logs a client in and responds to every command with OK.
func scriptServe(c *mysqlconn.Conn) {
	if !scriptLogin(c) {
		return
	}
	for scriptCommand(c) != nil {
		if c.WriteMessage(okPacket()) != nil {
			return
		}
	}
}

// connect logs in through the gateway as a user that scripted backends let in.
func connect(t testing.TB, addr string) (*mysqlconn.Client, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := mysqlconn.Dial(ctx, mysqlconn.Config{Addr: addr, User: "app", TLSMode: mysqlconn.TLSDisabled})
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

func mustConnect(t testing.TB, addr string) *mysqlconn.Client {
	t.Helper()
	c, err := connect(t, addr)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func exec(t testing.TB, c *mysqlconn.Client, sql string) (mysqlconn.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return c.Exec(ctx, sql)
}

// serverError returns err's ERR packet and whether it is one.
func serverError(err error) (*mysqlconn.ServerError, bool) {
	return errors.AsType[*mysqlconn.ServerError](err)
}

// backendsID returns the backend's number of the connection that was greeted with id.
func (r *rig) backendsID(greeted uint32) (uint32, bool) {
	r.ids.mu.Lock()
	defer r.ids.mu.Unlock()
	s, ok := r.ids.of[greeted]
	if !ok {
		return 0, false
	}
	return s.shown.connection.Load(), true
}

func backendID(t *testing.T, r *rig, c *mysqlconn.Client) uint32 {
	t.Helper()
	id, ok := r.backendsID(c.ConnectionID)
	if !ok {
		t.Fatalf("no session was greeted with number %d", c.ConnectionID)
	}
	return id
}
