package rowstream_test

import (
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestChunkUnsignedEnds cuts a table whose keys exceeded a signed integer in an earlier view, from the
// position of that view or up to its end.
func TestChunkUnsignedEnds(t *testing.T) {
	s := testmysql.Start(t)
	c := testrows.Connect(t, testrows.Root(s))
	testrows.Exec(t, c, "CREATE DATABASE f", "CREATE TABLE f.a (id BIGINT UNSIGNED PRIMARY KEY)", "INSERT INTO f.a VALUES (1), (2), (3), (4)")
	table, err := rowstream.ReadTable(t.Context(), c, "f", "a")
	if err != nil {
		t.Fatal(err)
	}
	const largest = "18446744073709551615"
	for _, tt := range []struct {
		name string
		from rowstream.Chunk
		want []string // the ends of the chunks
	}{
		{"end", rowstream.Chunk{Upto: mysqlwire.TextRow{[]byte(largest)}}, []string{"2", "4", ""}},
		{"start", rowstream.Chunk{After: mysqlwire.TextRow{[]byte(largest)}}, []string{""}},
		{"signed", rowstream.Chunk{After: mysqlwire.TextRow{[]byte("1")}, Upto: mysqlwire.TextRow{[]byte("4")}}, []string{"3", ""}},
	} {
		k, err := rowstream.NewChunker(t.Context(), c, table, 2*table.RowBytes(), tt.from)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		for i, want := range tt.want {
			chunk, err := k.Next(t.Context(), c)
			if err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			got := ""
			if chunk.Upto != nil {
				got = string(chunk.Upto[0])
			}
			if got != want {
				t.Errorf("%s: chunk %d ends at %q, want %q", tt.name, i, got, want)
			}
			if chunk.Upto == nil {
				break
			}
		}
	}
}
