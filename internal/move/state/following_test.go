package state

import (
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/binlog"
)

// TestLatest orders positions by their GTIDs where they have them, and refuses two positions each of which
// has transactions that the other lacks.
func TestLatest(t *testing.T) {
	p := func(offset uint64, gtid string) binlog.Position {
		return binlog.Position{File: "log.000001", Offset: offset, GTID: gtid}
	}
	none, plain := binlog.Position{}, p(9, "")
	for _, tt := range []struct {
		all    []binlog.Position
		want   binlog.Position
		refuse bool
	}{
		{nil, none, false},
		{[]binlog.Position{none, none}, none, false},
		{[]binlog.Position{none, plain}, plain, false},
		{[]binlog.Position{plain, none, p(4, "")}, plain, false},
		{[]binlog.Position{p(9, "0-1-5"), p(4, "0-1-7")}, p(4, "0-1-7"), false},
		{[]binlog.Position{p(4, "0-1-7"), p(9, "0-1-5"), none}, p(4, "0-1-7"), false},
		{[]binlog.Position{p(4, "0-1-7,1-1-3"), p(9, "0-1-5,1-1-4")}, none, true},
		{[]binlog.Position{none, p(4, "0-1-5,1-1-4"), p(9, "0-1-7,1-1-3")}, none, true},
	} {
		got, err := Latest(tt.all...)
		if tt.refuse {
			if err == nil || !strings.Contains(err.Error(), "neither is before the other") {
				t.Errorf("%v: %v, %v, want it refused", tt.all, got, err)
			}
		} else if err != nil || got != tt.want {
			t.Errorf("%v: %v, %v, want %v", tt.all, got, err, tt.want)
		}
	}
}
