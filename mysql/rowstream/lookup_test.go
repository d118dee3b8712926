package rowstream_test

import (
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestLookup selects rows by a lookup, and reports values that it does not have.
func TestLookup(t *testing.T) {
	var l rowstream.Lookup
	l.Name = "db.l"
	for i, v := range [][]byte{nil, {}, []byte("a"), []byte("\x00'\\")} {
		if err := l.Add(v, i); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Add(nil, 1); err == nil || err.Error() != "the lookup table db.l has the value NULL twice" {
		t.Error(err)
	}
	if l.Len() != 4 || l.Bytes() != 4 {
		t.Errorf("%d values of %d bytes", l.Len(), l.Bytes())
	}
	f, err := rowstream.NewFilter(&rowstream.Plan{Where: []rowstream.Condition{{Column: 1, Lookup: &l, Number: 2}}}, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		v    []byte
		pass bool
		err  string
	}{{[]byte("a"), true, ""}, {nil, false, ""}, {[]byte{}, false, ""}, {[]byte("A"), false, `a row has the value "A"`}} {
		_, ok := f.Apply(mysqlwire.TextRow{nil, c.v})
		if got := f.Err(); ok != c.pass || (got == nil) != (c.err == "") || got != nil && !strings.HasPrefix(got.Error(), c.err) {
			t.Errorf("%q: %v, %v", c.v, ok, got)
		}
	}
}
