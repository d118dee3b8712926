package binlog

import (
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

func app(s *testmysql.Server) mysqlconn.Config {
	return mysqlconn.Config{Addr: s.Addr, User: testmysql.AppUser, Password: testmysql.Password, Capabilities: mysqlwire.CapLocalFiles}
}

func connect(t *testing.T, cfg mysqlconn.Config) *mysqlconn.Client {
	t.Helper()
	c, err := rowstream.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func exec(t *testing.T, c *mysqlconn.Client, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// column returns the first column of each row as text.
func column(t *testing.T, c *mysqlconn.Client, sql string) []string {
	t.Helper()
	var got []string
	if _, err := c.Query(t.Context(), sql, func(row mysqlwire.TextRow) error {
		got = append(got, string(row[0]))
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return got
}
