package binlog_test

import (
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/binlog"
)

func TestPosition(t *testing.T) {
	for text, want := range map[string]binlog.Position{
		"":                                    {},
		"binlog.000003 4711":                  {File: "binlog.000003", Offset: 4711},
		"binlog.000003 4711 gtid=0-1-5":       {File: "binlog.000003", Offset: 4711, GTID: "0-1-5"},
		"gtid=0-1-5,1-2-7":                    {GTID: "0-1-5,1-2-7"},
		"b.1 18446744073709551615 gtid=x:1-5": {File: "b.1", Offset: 1<<64 - 1, GTID: "x:1-5"},
	} {
		p, err := binlog.ParsePosition(text)
		if err != nil || p != want || p.String() != text || p.IsZero() != (text == "") {
			t.Errorf("%q: %+v (%q), %v", text, p, p, err)
		}
	}
	for _, bad := range []string{"binlog.000003", "binlog.000003 x", "binlog.000003 -1", "a 1 2", "a 1 gtid=", "gtid=1 a 1", "a 18446744073709551616"} {
		if p, err := binlog.ParsePosition(bad); err == nil || !strings.Contains(err.Error(), bad[:1]) {
			t.Errorf("%q is %+v, %v", bad, p, err)
		}
	}
}

func TestPositionCompare(t *testing.T) {
	ascending := []binlog.Position{
		{File: "binlog.000009", Offset: 500},
		{File: "binlog.000010", Offset: 4},
		{File: "binlog.000010", Offset: 40},
		{File: "binlog.999999", Offset: 1 << 40},
		{File: "binlog.1000000", Offset: 4},
	}
	for i, p := range ascending {
		for j, q := range ascending {
			got := p.Compare(q)
			if (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%v to %v is %d", p, q, got)
			}
		}
	}
}

func FuzzPosition(f *testing.F) {
	f.Add("binlog.000003 4711 gtid=0-1-5")
	f.Add("gtid=gtid=")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := binlog.ParsePosition(text)
		if err != nil {
			return
		}
		if again, err := binlog.ParsePosition(p.String()); err != nil || again != p {
			t.Errorf("%q: %+v, then %+v, %v", text, p, again, err)
		}
	})
}
