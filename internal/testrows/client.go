package testrows

import (
	"testing"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// App returns the configuration of an account with all privileges on all schemas, and none on the server.
func App(s *testmysql.Server) mysqlconn.Config {
	return mysqlconn.Config{Addr: s.Addr, User: testmysql.AppUser, Password: testmysql.Password, Capabilities: mysqlwire.CapLocalFiles}
}

// Root returns the configuration of an account that may read the log.
func Root(s *testmysql.Server) mysqlconn.Config {
	cfg := App(s)
	cfg.User = testmysql.RootUser
	return cfg
}

// Session restores the settings of a connection that tests change.
const Session = `SET SESSION time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES',` +
	` character_set_client = utf8mb4, character_set_connection = utf8mb4, character_set_results = NULL`

// Connect opens a connection.
func Connect(t testing.TB, cfg mysqlconn.Config) *mysqlconn.Client {
	t.Helper()
	c, err := session.Connect(t.Context(), cfg)
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

// Exec executes statements.
func Exec(t testing.TB, c *mysqlconn.Client, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// Column returns the first column of each row as text.
func Column(t testing.TB, c *mysqlconn.Client, sql string) []string {
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

// Selected returns the rows of a table as they are read for a copy.
func Selected(t testing.TB, c *mysqlconn.Client, table *rowstream.Table) (rows []mysqlwire.TextRow) {
	t.Helper()
	sql, err := table.SelectChunk(rowstream.Chunk{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Query(t.Context(), sql, func(view mysqlwire.TextRow) error {
		var row mysqlwire.TextRow
		err := row.Decode(view.AppendTo(nil), len(view))
		rows = append(rows, row)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return rows
}

// AwaitNoTransaction waits until the server has no transaction. The account requires the privilege PROCESS. The server
// refreshes its list of transactions only if it was not queried for 0.1 s.
func AwaitNoTransaction(t testing.TB, c *mysqlconn.Client) {
	t.Helper()
	testwait.Equal(t, "the server to have no transaction", "0", func() string {
		Exec(t, c, "DO SLEEP(0.12)")
		return Column(t, c, "SELECT COUNT(*) FROM information_schema.INNODB_TRX")[0]
	})
}
