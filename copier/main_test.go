package copier

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/testmysql"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	// The SQL parser's logger has a goroutine from its package's start on.
	goleak.VerifyTestMain(withServers{m}, goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"))
}

// servers are the source and the target of all tests, which run one after the other.
var servers serverPair

// A serverPair is two servers that the first test starts, and that end with the last: starting
// them takes longer than most tests.
type serverPair struct {
	once     sync.Once
	from, to *testmysql.Server
	err      error
}

func (s *serverPair) get() (from, to *testmysql.Server, err error) {
	s.once.Do(func() {
		if s.from, s.err = testmysql.New(testmysql.WithBinlog()); s.err == nil {
			s.to, s.err = testmysql.New()
		}
	})
	return s.from, s.to, s.err
}

func (s *serverPair) close() (err error) {
	for _, server := range []*testmysql.Server{s.from, s.to} {
		if server != nil {
			err = errors.Join(err, server.Close())
		}
	}
	return err
}

// withServers are the package's tests, after which the servers end.
type withServers struct{ tests testmysql.Runner }

func (w withServers) Run() int {
	code := w.tests.Run()
	if err := servers.close(); err != nil {
		fmt.Fprintf(os.Stderr, "stop the servers: %v\n", err)
		code = max(code, 1)
	}
	return code
}
