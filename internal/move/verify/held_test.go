package verify

import (
	"slices"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testrows"
)

// TestHeld compares the chunks of a table in one view. A row that has changed since its view was taken is compared in
// a new one, unless its chunk was the first of the view: then its rows are compared at once.
func TestHeld(t *testing.T) {
	c := newCopied(t)
	c.follow()
	for _, tt := range []struct {
		name, key string // of the table b, whose chunks have 12 rows
		views     uint64 // at least, if the time for which further views serve gets shorter
		shorter   bool
	}{
		{"nothing changes", "", 1, false},
		{"in a further chunk", "13", 2, true},
		{"in the last chunk", "60", 2, true},
		{"in the first chunk", "1", 2, false},
	} {
		o := c.options(c.direct, 1)
		old := &restless{Follower: testrows.Direct(t, c.direct), key: tt.key, old: 1}
		o.Source, o.View = old, noView{}
		o.Only = [][]bool{make([]bool, 5), {true, true, true, true, true}}
		var compared []int
		o.Observe = func(e telemetry.Event) {
			if e.Kind == telemetry.EventVerified && e.Table == "src.b" {
				compared = append(compared, e.Chunk)
			}
		}
		f := NewFollowing(o, c.follower)
		f.holds = time.Hour
		reports, changing, err := f.Pass(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n, _ := changing.Rows()
		if r := reports[1]; n != 0 || r.Mismatches() != 0 || r.Undecided != 0 || r.Chunks != 5 || r.Rows != 60 {
			t.Errorf("%s: %d rows are kept, report %+v", tt.name, n, r)
		}
		if want := []int{0, 1, 2, 3, 4}; !slices.Equal(compared, want) {
			t.Errorf("%s: chunks %v, want %v", tt.name, compared, want)
		}
		if old.views < tt.views || old.views > tt.views && !tt.shorter || f.holds < time.Minute != tt.shorter {
			t.Errorf("%s: %d views, want %d; they serve for %v", tt.name, old.views, tt.views, f.holds)
		}
		if f.held != nil {
			t.Errorf("%s: a view is left", tt.name)
		}
	}
}
