package wire

import (
	"fmt"
	"testing"

	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/rowstream"
)

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
			for _, row := range testrows.RowsOf(t, b) {
				rows = append(rows, fmt.Sprintf("%q", row))
			}
		}
		if c.Upto == nil {
			return cut, rows
		}
		next = rowstream.Chunk{Number: c.Number + 1, After: c.Upto}
	}
}
