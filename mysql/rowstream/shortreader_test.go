package rowstream

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestLastKeyEmpty stores the key of a row with an empty value, which is not NULL.
func TestLastKeyEmpty(t *testing.T) {
	table := &Table{Schema: "s", Name: "t", Columns: []Column{{Name: "a", Type: "varchar"}, {Name: "b", Type: "varbinary"}}, Key: []int{0, 1}}
	var l lastKey
	if err := l.reset(table, nil); err != nil {
		t.Fatal(err)
	}
	for _, row := range []mysqlwire.TextRow{{[]byte{}, []byte("x")}, {[]byte("y"), []byte{}}} {
		var b Batch
		b.Reset(2)
		b.AppendRow(row)
		if err := l.store(&b); err != nil {
			t.Fatal(err)
		}
		got, err := l.after(nil)
		if err != nil || len(got) != 2 || got[0] == nil || got[1] == nil || string(got[0]) != string(row[0]) || string(got[1]) != string(row[1]) {
			t.Errorf("the key of %q is %q, %v", row, got, err)
		}
	}
}

// TestLastKey stores keys of rows that a plan has reordered.
func TestLastKey(t *testing.T) {
	table := &Table{Schema: "d", Name: "t", Columns: []Column{{Name: "a", Type: "int"}, {Name: "b", Type: "bit"}}, Key: []int{1, 0}}
	var l lastKey
	if err := l.reset(table, &Plan{Output: []Output{{Column: 0, From: ColumnValue}}}); err == nil {
		t.Error("a plan without a column of the key was accepted")
	}
	if err := l.reset(table, &Plan{Output: []Output{{Column: 1, From: ColumnValue}, {Column: 0, From: ColumnValue}}}); err != nil {
		t.Fatal(err)
	}
	b := new(Batch)
	b.Reset(2)
	b.AppendRow(mysqlwire.TextRow{[]byte("\x01\x00"), []byte("7")})
	b.AppendRow(mysqlwire.TextRow{[]byte("\x01\x02"), []byte("8")})
	if err := l.store(b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(mysqlwire.TextRow{[]byte("258"), []byte("8")}, l.keys); diff != "" {
		t.Error(diff)
	}
	if n := testing.AllocsPerRun(100, func() { _ = l.store(b) }); n != 0 {
		t.Errorf("%v allocations per batch", n)
	}
	b.Reset(2)
	b.AppendRow(mysqlwire.TextRow{[]byte("\x01"), nil})
	if err := l.store(b); !errors.Is(err, ErrNullKey) {
		t.Errorf("a key with NULL: %v", err)
	}
}
