package testmysql

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
)

// shared is the test binary's server. It is the package's only process-wide value: a test binary has no other
// scope shared by all its tests.
var shared sharedServer //nolint:gochecknoglobals // one server a test binary

// A sharedServer is started by the first test that uses it.
type sharedServer struct {
	mu      sync.Mutex
	server  *Server
	err     error // reason why it did not start; not retried
	schemas int   // number of schemas created, for unique names
}

// A Schema is an empty schema of the shared server, owned by one test.
type Schema struct {
	*Server
	Name string
}

// Shared returns a new schema on the server shared by the tests of this binary, and starts the server for the
// first one. The schema is dropped when the test ends; the server is stopped by Main, or exits with the
// process.
func Shared(t interface {
	TB
	Name() string
},
) *Schema {
	t.Helper()
	SkipIfOff(t)
	server, n, err := shared.get()
	if err != nil {
		t.Fatalf("start the shared MariaDB server: %v", err)
		return nil
	}
	s := &Schema{Server: server, Name: schemaName(t.Name(), n)}
	if err := server.Exec("CREATE DATABASE `" + s.Name + "` CHARACTER SET utf8mb4"); err != nil {
		t.Fatalf("make a schema for the test: %v", err)
		return nil
	}
	t.Cleanup(func() {
		if err := server.Exec("DROP DATABASE IF EXISTS `" + s.Name + "`"); err != nil {
			t.Errorf("drop the test's schema: %v", err)
		}
	})
	return s
}

// get returns the server, and a unique number.
func (s *sharedServer) get() (server *Server, n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil && s.err == nil {
		s.server, s.err = New()
	}
	s.schemas++
	return s.server, s.schemas, s.err
}

// stop stops the server permanently.
func (s *sharedServer) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	server := s.server
	s.server, s.err = nil, errors.New("the tests are over")
	if server == nil {
		return nil
	}
	return server.Close()
}

// DSN returns go-sql-driver's data source name for an account, with this schema.
func (s *Schema) DSN(user string) string {
	c := s.Config(user)
	c.DBName = s.Name
	return c.FormatDSN()
}

// schemaName derives a name from a test's: letters and digits only, as tests deliberately omit quoting, and
// short enough for MySQL's 64 characters.
func schemaName(test string, n int) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, test)
	return fmt.Sprintf("t%d_%.40s", n, clean)
}

// A Runner runs a test binary's tests: *testing.M, or the argument of goleak.
type Runner interface{ Run() int }

// Main wraps a test binary's tests so that the shared server is stopped after them:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(testmysql.Main(m)) }
func Main(m Runner) Runner { return runner{m} }

type runner struct{ tests Runner }

func (r runner) Run() int {
	code := r.tests.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintf(os.Stderr, "testmysql: stop the shared server: %v\n", err)
		code = max(code, 1)
	}
	return code
}
