package wire

import (
	"fmt"
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

// chunks cuts a table and reads each chunk; every value is returned as text.
func chunks(t *testing.T, server rowstream.Server, table *rowstream.Table, bytes int64, o rowstream.ReadOptions) (cut []rowstream.Chunk, rows []string) {
	t.Helper()
	s, err := server.Snapshot(t.Context(), 1, []*rowstream.Table{table})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	r := s.Reader(0)
	next := rowstream.Chunk{}
	for {
		c, err := r.Cut(t.Context(), table, bytes, next)
		if err != nil {
			t.Fatal(err)
		}
		if c.Number != len(cut) {
			t.Fatalf("chunk %d comes as number %d", len(cut), c.Number)
		}
		cut = append(cut, c)
		for b, err := range r.Read(t.Context(), table, c, o) {
			if err == nil {
				err = b.Check()
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rowsOf(t, b) {
				rows = append(rows, fmt.Sprintf("%q", row))
			}
		}
		if c.Upto == nil {
			return cut, rows
		}
		next = rowstream.Chunk{Number: c.Number + 1, After: c.Upto}
	}
}
