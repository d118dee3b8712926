package rowstream

import (
	"bytes"
	"testing"

	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestStreamStatement streams random rows with values around the length of a piece: the text and its announced length
// are those of the statements in memory.
func TestStreamStatement(t *testing.T) {
	rnd := testseed.Rand(t)
	columns := []Column{
		{Name: "id", Type: "int", FullType: "int"},
		{Name: "v", Type: "longblob", FullType: "longblob"},
		{Name: "j", Type: "json", FullType: "json"},
		{Name: "t", Type: "longtext", FullType: "longtext", Charset: "utf8mb4", Collation: "utf8mb4_bin"},
	}
	s, err := NewRowSQL("`d`.`t`", columns, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	_, wraps := InsertColumns(columns)
	value := func() []byte {
		switch rnd.IntN(6) {
		case 0:
			return nil
		case 1:
			return []byte{}
		}
		sizes := []int{rnd.IntN(100), streamPiece - 1, streamPiece, streamPiece + 1, 2 * streamPiece, 2*streamPiece + 1, rnd.IntN(5 * streamPiece)}
		v := bytes.Repeat([]byte{'a'}, sizes[rnd.IntN(len(sizes))])
		if len(v) > 0 && rnd.IntN(2) == 0 {
			v[rnd.IntN(len(v))] = "\x00\xff'\\\n"[rnd.IntN(5)]
		}
		return v
	}
	for range 100 {
		row := mysqlwire.TextRow{[]byte("1"), value(), value(), value()}
		var got []byte
		write := func(b []byte) error {
			got = append(got, b...)
			return nil
		}
		if _, err := s.StreamRow(nil, row, write); err != nil {
			t.Fatal(err)
		}
		if want := s.AppendRow(nil, row, true); !bytes.Equal(got, want) || s.RowSize(row) != len(want) {
			t.Fatalf("REPLACE: got %d bytes, announced %d, want %d", len(got), s.RowSize(row), len(want))
		}
		got = got[:0]
		const head = "INSERT INTO t VALUES "
		if _, err := StreamInsert(nil, head, row, wraps, write); err != nil {
			t.Fatal(err)
		}
		b := Batch{Columns: len(columns)}
		b.AppendRow(row)
		want, _, n, err := AppendInsert(nil, head, &b, 0, len(b.Bytes)*3+1000, wraps)
		if err != nil || n != 1 || !bytes.Equal(got, want) || InsertSize(head, row, wraps) != len(want) {
			t.Fatalf("INSERT: got %d bytes, announced %d, want %d, %v", len(got), InsertSize(head, row, wraps), len(want), err)
		}
	}
}
