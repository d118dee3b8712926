package testrows

import (
	"fmt"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysql/rowstream"
)

// A WideTable has rows of 1 MiB, and then many more of 100 bytes.
type WideTable struct{ Wide, Narrow int }

// Create creates the table wide.t, whose rows are incompressible.
func (w WideTable) Create(t testing.TB, s *testmysql.Server) *rowstream.Table {
	t.Helper()
	c := Connect(t, Root(s))
	Exec(t, c, "CREATE DATABASE wide", "CREATE TABLE wide.t (id INT PRIMARY KEY, c LONGBLOB NOT NULL)",
		"CREATE TABLE wide.piece (n INT PRIMARY KEY, c BLOB)", "INSERT INTO wide.piece SELECT seq, RANDOM_BYTES(1024) FROM test.seq_1_to_1024",
		"SET SESSION group_concat_max_len = 4 << 20", "SET @mib = (SELECT GROUP_CONCAT(c ORDER BY n SEPARATOR '') FROM wide.piece)", "SET @hundred = LEFT(@mib, 100)",
		fmt.Sprintf("INSERT INTO wide.t SELECT seq, @mib FROM test.seq_1_to_%d", w.Wide),
		fmt.Sprintf("INSERT INTO wide.t SELECT seq + %d, @hundred FROM test.seq_1_to_%d", w.Wide, w.Narrow))
	table, err := rowstream.ReadTable(t.Context(), c, "wide", "t")
	if err != nil {
		t.Fatal(err)
	}
	return table
}
