package rowstream_test

import (
	"bytes"
	"testing"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestStreamLoad compares the parts of wide rows with the text of AppendLoad.
func TestStreamLoad(t *testing.T) {
	wide := bytes.Repeat([]byte("a\\b\tc\nd\x00"), 40_000)
	for _, columns := range []int{1, 3} {
		var b rowstream.Batch
		b.Reset(columns)
		for _, v := range [][]byte{wide, nil, {}, wide[:64<<10], wide[:64<<10+1], []byte("\\")} {
			row := mysqlwire.TextRow{v, []byte("\t"), nil}[:columns]
			b.AppendRow(row)
		}
		want, err := rowstream.AppendLoad(nil, &b)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		most := 0
		room, err := rowstream.StreamLoad(nil, &b, func(piece []byte) error {
			got, most = append(got, piece...), max(most, len(piece))
			return nil
		})
		if err != nil || !bytes.Equal(got, want) || most > 256<<10 || cap(room) > 512<<10 {
			t.Errorf("%d columns: %d bytes, want %d, in pieces of at most %d, with room for %d, %v", columns, len(got), len(want), most, cap(room), err)
		}
	}
}
