package rowstream

import (
	"fmt"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
)

// A wideTable has rows of 1 MiB, and then many more of 100 bytes.
type wideTable struct{ wide, narrow int }

// make creates the table wide.t, whose rows are incompressible.
func (w wideTable) make(t *testing.T, s *testmysql.Server) *Table {
	t.Helper()
	c := connect(t, root(s))
	exec(t, c, "CREATE DATABASE wide", "CREATE TABLE wide.t (id INT PRIMARY KEY, c LONGBLOB NOT NULL)",
		"CREATE TABLE wide.piece (n INT PRIMARY KEY, c BLOB)", "INSERT INTO wide.piece SELECT seq, RANDOM_BYTES(1024) FROM test.seq_1_to_1024",
		"SET SESSION group_concat_max_len = 4 << 20", "SET @mib = (SELECT GROUP_CONCAT(c ORDER BY n SEPARATOR '') FROM wide.piece)", "SET @hundred = LEFT(@mib, 100)",
		fmt.Sprintf("INSERT INTO wide.t SELECT seq, @mib FROM test.seq_1_to_%d", w.wide),
		fmt.Sprintf("INSERT INTO wide.t SELECT seq + %d, @hundred FROM test.seq_1_to_%d", w.wide, w.narrow))
	table, err := ReadTable(t.Context(), c, "wide", "t")
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestWideDirect reads rows of 1 MiB and then many of 100 bytes over one connection: afterwards no buffer has
// more capacity than for two batches.
func TestWideDirect(t *testing.T) {
	rows := wideTable{wide: 30, narrow: 200_000}
	server := testmysql.Start(t)
	table := rows.make(t, server)
	s, err := OpenSnapshot(t.Context(), root(server), 1, []*Table{table})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	r := s.Reader(0).(*reader)
	most, n := 0, int64(0)
	for b, err := range r.Read(t.Context(), table, Chunk{Number: 1}, ReadOptions{Count: &n}) {
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, cap(b.Bytes))
	}
	if n != int64(rows.wide+rows.narrow) {
		t.Fatalf("%d rows", n)
	}
	const bound = 2 * DefaultBatchBytes
	if most <= bound {
		t.Errorf("no batch had room for more than %d bytes: nothing is shown", most)
	}
	for what, size := range map[string]int{"the batch": cap(r.batch.Bytes), "the last wide row": cap(r.wide.Bytes), "the connection's buffer": s.clients[0].Size()} {
		if size > bound {
			t.Errorf("%s: room for %d bytes is kept, want at most %d", what, size, bound)
		}
	}
}
