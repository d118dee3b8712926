package tabledef

import (
	"bytes"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/mysql/rowstream"
)

// FuzzLookupRecord reads recorded values that were damaged: they are refused, or are the loaded ones in part.
func FuzzLookupRecord(f *testing.F) {
	l := &Lookup{Schema: "shop", Table: "shards", Count: 3, values: &rowstream.Lookup{Name: "shop.shards"}}
	for i, value := range [][]byte{nil, {}, []byte("1"), []byte("20"), bytes.Repeat([]byte("x"), 200)} {
		if err := l.values.Add(value, i%3); err != nil {
			f.Fatal(err)
		}
	}
	whole := l.Record()
	f.Add(whole)
	f.Add([]byte{})
	f.Add(whole[:len(whole)-1])
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{0x80})
	f.Add([]byte{2, 3, 'a'})
	f.Fuzz(func(t *testing.T, recorded []byte) {
		defer alloctest.Bounded(t, 16<<20)()
		err := l.Extends(recorded)
		if bytes.Equal(recorded, whole) && err != nil {
			t.Fatalf("the record of the loaded values is refused: %v", err)
		}
		// Each accepted value has a place in the whole record, and none is there twice.
		if err == nil && len(recorded) > len(whole)+2*l.values.Len()*9 {
			t.Fatalf("%d bytes are accepted, and the whole record has %d", len(recorded), len(whole))
		}
	})
}
