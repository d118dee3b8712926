package copier

import (
	"strings"
	"testing"

	"github.com/taredb/tare/rowstream"
)

// TestLatest orders positions by their GTIDs where they have them, and refuses two of which each has transactions that the other
// lacks.
func TestLatest(t *testing.T) {
	p := func(offset uint64, gtid string) rowstream.Position {
		return rowstream.Position{File: "log.000001", Offset: offset, GTID: gtid}
	}
	none, plain := rowstream.Position{}, p(9, "")
	for _, tt := range []struct {
		all    []rowstream.Position
		want   rowstream.Position
		refuse bool
	}{
		{nil, none, false},
		{[]rowstream.Position{none, none}, none, false},
		{[]rowstream.Position{none, plain}, plain, false},
		{[]rowstream.Position{plain, none, p(4, "")}, plain, false},
		{[]rowstream.Position{p(9, "0-1-5"), p(4, "0-1-7")}, p(4, "0-1-7"), false},
		{[]rowstream.Position{p(4, "0-1-7"), p(9, "0-1-5"), none}, p(4, "0-1-7"), false},
		{[]rowstream.Position{p(4, "0-1-7,1-1-3"), p(9, "0-1-5,1-1-4")}, none, true},
		{[]rowstream.Position{none, p(4, "0-1-5,1-1-4"), p(9, "0-1-7,1-1-3")}, none, true},
	} {
		got, err := latest(tt.all...)
		if tt.refuse {
			if err == nil || !strings.Contains(err.Error(), "neither is before the other") {
				t.Errorf("%v: %v, %v, want it refused", tt.all, got, err)
			}
		} else if err != nil || got != tt.want {
			t.Errorf("%v: %v, %v, want %v", tt.all, got, err, tt.want)
		}
	}
}
