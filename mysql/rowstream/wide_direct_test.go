package rowstream_test

import (
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestWideDirect reads rows of 1 MiB and then many of 100 bytes over one connection: afterwards no buffer has
// more capacity than for two batches.
func TestWideDirect(t *testing.T) {
	rows := testrows.WideTable{Wide: 30, Narrow: 200_000}
	server := testmysql.Start(t)
	table := rows.Create(t, server)
	s, err := rowstream.OpenSnapshot(t.Context(), testrows.Root(server), 1, []*rowstream.Table{table})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	r := s.Reader(0)
	most, n := 0, int64(0)
	for b, err := range r.Read(t.Context(), table, rowstream.Chunk{Number: 1}, rowstream.ReadOptions{Count: &n}) {
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, cap(b.Bytes))
	}
	if n != int64(rows.Wide+rows.Narrow) {
		t.Fatalf("%d rows", n)
	}
	const bound = 2 * rowstream.DefaultBatchBytes
	if most <= bound {
		t.Errorf("no batch had room for more than %d bytes: nothing is shown", most)
	}
	batch, wide := rowstream.Kept(r)
	for what, size := range map[string]int{"the batch": batch, "the last wide row": wide, "the connection's buffer": rowstream.Clients(s)[0].Size()} {
		if size > bound {
			t.Errorf("%s: room for %d bytes is kept, want at most %d", what, size, bound)
		}
	}
}
