package alter

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/mysqlconn"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) { // tests wait for servers most of the time
		if err := parallel.Value.Set("6"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(withServers{m}, goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"))
}

// servers are those of all tests: a MariaDB and a MySQL, each with a binary log.
var servers struct {
	mariaDB, mySQL starting
	schemas        atomic.Int64
}

// A starting is a server that the first test starts.
type starting struct {
	once   sync.Once
	server *testmysql.Server
	err    error
}

// of returns the server of a product.
func (s *starting) of(product string) (*testmysql.Server, error) {
	s.once.Do(func() { s.server, s.err = testmysql.New(products[product]...) })
	return s.server, s.err
}

// withServers are the package's tests, after which the servers end.
type withServers struct{ tests testmysql.Runner }

func (w withServers) Run() int {
	code := w.tests.Run()
	for _, s := range []*starting{&servers.mariaDB, &servers.mySQL} {
		if s.server == nil {
			continue
		}
		if err := s.server.Close(); err != nil {
			fmt.Fprintf(os.Stderr, "stop the servers: %v\n", err)
			code = max(code, 1)
		}
	}
	return code
}

// products are the servers that tests run on.
var products = map[string][]testmysql.Option{
	"MariaDB": {testmysql.WithBinlog()},
	"MySQL":   {testmysql.WithBinlog(), testmysql.WithMySQL()},
}

// onBoth runs a test on a MariaDB and a MySQL, each with a new schema, beside other tests.
func onBoth(t *testing.T, do func(t *testing.T, d *database)) {
	t.Parallel()
	for product := range products {
		t.Run(product, func(t *testing.T) {
			t.Parallel()
			do(t, newDatabase(t, product))
		})
	}
}

// aloneOnBoth is onBoth for tests that others on the same server would disturb, or be disturbed by: no other test runs meanwhile.
func aloneOnBoth(t *testing.T, do func(t *testing.T, d *database)) {
	for product := range products {
		t.Run(product, func(t *testing.T) {
			t.Parallel()
			do(t, newDatabase(t, product))
		})
	}
}

// A database is a schema of a server.
type database struct {
	t       *testing.T
	server  *testmysql.Server
	product string
	schema  string
}

func newDatabase(t *testing.T, product string) *database {
	t.Helper()
	start := &servers.mariaDB
	if product == "MySQL" {
		start = &servers.mySQL
	}
	server, err := start.of(product)
	if errors.Is(err, testmysql.ErrNoMySQL) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	d := &database{t: t, server: server, product: product, schema: fmt.Sprintf("alter_%d", servers.schemas.Add(1))}
	d.exec("CREATE DATABASE " + d.schema + " CHARACTER SET utf8mb4")
	t.Cleanup(func() { d.exec("DROP DATABASE " + d.schema) })
	return d
}

// exec executes statements as root.
func (d *database) exec(statements ...string) {
	d.t.Helper()
	if err := d.server.Exec(statements...); err != nil {
		d.t.Fatal(err)
	}
}

// config is root's connection.
func (d *database) config() mysqlconn.Config {
	return mysqlconn.Config{Addr: d.server.Addr, User: testmysql.RootUser, Password: testmysql.Password, MaxPacket: 1 << 30}
}

// connect opens a connection in the schema that is closed with the test.
func (d *database) connect() *mysqlconn.Client { return d.connectTo(d.schema) }

func (d *database) connectTo(schema string) *mysqlconn.Client {
	d.t.Helper()
	c, err := session.Connect(d.t.Context(), d.config())
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = c.Close() }) // the test is over
	if _, err := c.Exec(d.t.Context(), "USE "+schema); err != nil {
		d.t.Fatal(err)
	}
	return c
}

// value returns the value of a query.
func (d *database) value(c *mysqlconn.Client, sql string) string {
	d.t.Helper()
	v, err := session.QueryValue(d.t.Context(), c, sql)
	if err != nil {
		d.t.Fatal(err)
	}
	return v
}

// options are those for a table of the schema.
func (d *database) options(table, clauses string) Options {
	return Options{On: d.config(), Schema: d.schema, Table: table, Clauses: clauses, KeepOld: time.Hour, Observe: func(e telemetry.Event) {
		if e.Kind == telemetry.EventAlter || e.Kind == telemetry.EventRetry {
			d.t.Log(e.Text)
		}
	}}
}
