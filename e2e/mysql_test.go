//go:build e2e

package e2e

import (
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
)

// The accounts of MySQL servers for copies, with testmysql.Password; like all of their accounts they use
// caching_sha2_password.
var copierAccount = testmysql.WithSetup("create user if not exists copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier")

// The MySQL servers that tests share, each started on first use.
var (
	mysqlGTID  mysqlServer // with GTIDs and compressed transactions in its log
	mysqlPlain mysqlServer // without either
)

type mysqlServer struct {
	once   sync.Once
	server *testmysql.Server
	err    error
}

// get returns the server. Tests are skipped if MySQL is unavailable, for which e2e/run gives the reason.
func (s *mysqlServer) get(t *testing.T) *testmysql.Server {
	t.Helper()
	s.once.Do(func() {
		opts := []testmysql.Option{testmysql.WithMySQL(), testmysql.WithBinlog(), copierAccount, testmysql.WithArgs("--max-connections=1300")}
		if s == &mysqlGTID {
			opts = append(opts, testmysql.WithArgs("--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--binlog-transaction-compression=ON"))
		} else { // newer servers have GTIDs by default
			opts = append(opts, testmysql.WithArgs("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF", "--binlog-transaction-compression=OFF"))
		}
		s.server, s.err = testmysql.New(opts...)
	})
	if why := os.Getenv("TARE_NO_MYSQL"); why != "" && errors.Is(s.err, testmysql.ErrNoMySQL) {
		t.Skip(why)
	}
	must(t, s.err)
	return s.server
}

// close stops the server, if there is one.
func (s *mysqlServer) close() error {
	s.once.Do(func() {})
	if s.server == nil {
		return nil
	}
	return s.server.Close()
}

// cleanSchema creates an empty schema on each server, without the records of copies to it; it is dropped with
// the test.
func cleanSchema(t *testing.T, name string, servers ...*testmysql.Server) {
	t.Helper()
	drop := []string{"drop database if exists " + name, "drop database if exists _tare"}
	for _, s := range servers {
		must(t, s.Exec(append(drop, "create database "+name+" character set utf8mb4")...))
		t.Cleanup(func() {
			if err := s.Exec(drop...); err != nil {
				t.Error(err)
			}
		})
	}
}

// copyArgs returns a command line of tare copy.
func copyArgs(from, to *testmysql.Server, more ...string) []string {
	return append([]string{
		"copy", "--from", "mysql://copier:" + testmysql.Password + "@" + from.Addr, "--to", "mysql://copier:" + testmysql.Password + "@" + to.Addr,
		"--json", "--patience", "30s", "--control-socket", "off",
	}, more...)
}
