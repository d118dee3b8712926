package rowstream

import (
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
)

// root returns the configuration of an account that may read the log.
func root(s *testmysql.Server) mysqlconn.Config {
	cfg := app(s)
	cfg.User = testmysql.RootUser
	return cfg
}

// selected returns a table's rows as selected by ReadExpr.
func selected(t *testing.T, c *mysqlconn.Client, table *Table) (rows []mysqlwire.TextRow) {
	t.Helper()
	sql, err := table.SelectChunk(Chunk{}, "")
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
