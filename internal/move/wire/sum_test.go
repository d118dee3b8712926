package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestSums computes checksums on the server, through a service, and by reading the rows: all are equal.
func TestSums(t *testing.T) {
	cfg := testrows.App(testmysql.Start(t))
	c := testrows.Connect(t, cfg)
	testrows.Exec(t, c, "CREATE OR REPLACE DATABASE sums",
		"CREATE TABLE sums.t (name VARCHAR(20) COLLATE utf8mb4_general_ci, b BIT(9), d DOUBLE, s TEXT, PRIMARY KEY (name, b))",
		"INSERT INTO sums.t SELECT CONCAT('É', seq DIV 3), seq % 3, seq / 7, IF(seq % 5, REPEAT('s', seq % 50), NULL) FROM test.seq_1_to_9000")
	eachServer(t, cfg, func(t *testing.T, s rowstream.Server) {
		table, err := s.Describe(t.Context(), "sums", "t")
		if err != nil {
			t.Fatal(err)
		}
		view, err := s.Snapshot(t.Context(), 2, []*rowstream.Table{table})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = view.Close() }()
		r := view.Reader(1)
		for _, o := range []rowstream.SumOptions{
			{Columns: []int{0, 1, 2, 3}},
			{Columns: []int{3}, Where: "d > 500", Plan: &rowstream.Plan{Where: []rowstream.Condition{{Column: 0, Shard: rowstream.Shard{Index: 2, Count: 3}}}, Output: []rowstream.Output{{Column: 1}}}},
		} {
			var want rowstream.Checksum
			var wantRows, rows []string
			chunk := rowstream.Chunk{Number: 3, After: mysqlwire.TextRow{[]byte("É100"), []byte("1")}}
			for row, err := range rowstream.SumRead(t.Context(), r, table, chunk, o) {
				if err != nil {
					t.Fatal(err)
				}
				want.Rows++
				want.Sum ^= row.Sum
				wantRows = append(wantRows, fmt.Sprintf("%q %x", row.Key, row.Sum))
			}
			for row, err := range rowstream.SumRows(t.Context(), r, table, chunk, o) {
				if err != nil {
					t.Fatal(err)
				}
				rows = append(rows, fmt.Sprintf("%q %x", row.Key, row.Sum))
			}
			if diff := cmp.Diff(wantRows, rows); diff != "" || len(rows) < 1000 {
				t.Errorf("%d rows: %s", len(rows), diff)
			}
			if got, err := rowstream.SumChunk(t.Context(), r, table, chunk, o); got != want || err != nil {
				t.Errorf("%v, %v; want %v", got, err, want)
			}
		}
		if _, err := rowstream.SumChunk(t.Context(), r, table, rowstream.Chunk{}, rowstream.SumOptions{Columns: []int{0}, Where: "nonsense = 1"}); err == nil || !strings.Contains(err.Error(), "nonsense") {
			t.Errorf("a condition that is none: %v", err)
		}
		if _, remote := s.(*wire.Remote); !remote {
			return
		}
		for want, o := range map[string]rowstream.SumOptions{
			"column number 4 is out of range": {Columns: []int{4}}, "column number -1 is out of range": {Columns: []int{-1}}, "no columns": {},
			"condition 0: column number 7": {Columns: []int{0}, Plan: &rowstream.Plan{Where: []rowstream.Condition{{Column: 7, Shard: rowstream.Shard{Index: 1, Count: 2}}}}},
		} {
			_, err := r.SumChunk(t.Context(), table, rowstream.Chunk{}, o)
			var rowsErr error
			for _, rowsErr = range r.SumRows(t.Context(), table, rowstream.Chunk{}, o) {
				break
			}
			for _, err := range []error{err, rowsErr} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
		}
	})
}
