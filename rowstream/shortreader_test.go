package rowstream

import (
	"testing"

	"github.com/taredb/tare/mysqlwire"
)

// TestLastKeyEmpty keeps keys of a batch whose last row has an empty value, which is not NULL.
func TestLastKeyEmpty(t *testing.T) {
	table := &Table{Schema: "s", Name: "t", Columns: []Column{{Name: "a", Type: "varchar"}, {Name: "b", Type: "varbinary"}}, Key: []int{0, 1}}
	var l lastKey
	if err := l.begin(table, nil); err != nil {
		t.Fatal(err)
	}
	for _, row := range []mysqlwire.TextRow{{[]byte{}, []byte("x")}, {[]byte("y"), []byte{}}} {
		var b Batch
		b.Reset(2)
		b.AppendRow(row)
		if err := l.take(&b); err != nil {
			t.Fatal(err)
		}
		got, err := l.after(nil)
		if err != nil || len(got) != 2 || got[0] == nil || got[1] == nil || string(got[0]) != string(row[0]) || string(got[1]) != string(row[1]) {
			t.Errorf("the key of %q is %q, %v", row, got, err)
		}
	}
}
