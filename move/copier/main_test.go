package copier_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	// The SQL parser's logger starts a goroutine when its package is initialized.
	goleak.VerifyTestMain(withServers{m}, goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"))
}

// servers are shared by all tests, because starting them takes longer than most tests.
var servers = serverPool{held: make(map[string]*serverPair), mysql: make(chan *testmysql.Server, 1)}

// A serverPool has pairs of servers. A pair is used by one test and its subtests at a time, because tests
// change global variables and kill connections. The pool starts as many pairs as there are concurrent tests.
type serverPool struct {
	mu   sync.Mutex
	free []*serverPair
	held map[string]*serverPair // by the name of the test
	all  []*testmysql.Server

	mysql   chan *testmysql.Server // the MySQL server while no test uses it
	started bool                   // whether it was started
}

// A serverPair is a source with a binary log, and a target.
type serverPair struct{ from, to *testmysql.Server }

// hold returns the pair of the test, reserved until t ends.
func (s *serverPool) hold(t *testing.T) *serverPair {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	pair := s.held[test]
	if pair != nil {
		return pair
	}
	if n := len(s.free); n > 0 {
		pair, s.free = s.free[n-1], s.free[:n-1]
		if err := pair.from.Exec("FLUSH BINARY LOGS"); err != nil { // a copy reads the current log from its start to name its position
			t.Fatal(err)
		}
	} else {
		pair = &serverPair{from: s.start(t, testmysql.WithBinlog()), to: s.start(t)}
	}
	s.held[test] = pair
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.held, test)
		s.free = append(s.free, pair)
	})
	return pair
}

// reserves reports whether the test has a pair, or is a subtest of one.
func (s *serverPool) reserves(t *testing.T) bool {
	test, _, isSub := strings.Cut(t.Name(), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	return isSub || s.held[test] != nil
}

// holdMySQL returns the MySQL server, reserved until t ends.
func (s *serverPool) holdMySQL(t *testing.T) *testmysql.Server {
	t.Helper()
	s.startMySQL(t)
	server := testwait.Receive(t, "the MySQL to be free", s.mysql)
	t.Cleanup(func() { s.mysql <- server })
	return server
}

func (s *serverPool) startMySQL(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		s.mysql <- s.start(t, testmysql.WithMySQL(), testmysql.WithBinlog())
		s.started = true
	}
}

// start starts a server that runs as long as the pool. The caller has the lock.
func (s *serverPool) start(t *testing.T, opts ...testmysql.Option) *testmysql.Server {
	t.Helper()
	server, err := testmysql.New(opts...)
	if errors.Is(err, testmysql.ErrNoMySQL) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.all = append(s.all, server)
	return server
}

func (s *serverPool) close() (err error) {
	for _, server := range s.all {
		err = errors.Join(err, server.Close())
	}
	return err
}

// withServers runs the package's tests and then stops the servers.
type withServers struct{ tests testmysql.Runner }

func (w withServers) Run() int {
	code := w.tests.Run()
	if err := servers.close(); err != nil {
		fmt.Fprintf(os.Stderr, "stop the servers: %v\n", err)
		code = max(code, 1)
	}
	return code
}
