package statements

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testseed"
)

// TestUncoveredHours removes random hours of a plan, and compares with the hours that are there.
func TestUncoveredHours(t *testing.T) {
	rng := testseed.Rand(t)
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for range 1000 {
		n := 1 + rng.IntN(60)
		p := &plan{from: start, to: start.Add(time.Duration(n) * time.Hour)}
		var there []bool
		for i := range n {
			there = append(there, rng.IntN(20) > 0)
			if at := start.Add(time.Duration(i) * time.Hour); there[i] {
				p.files = append(p.files, &planned{begin: at, end: at.Add(time.Hour)})
			}
		}
		if n >= 24 && rng.IntN(2) == 0 { // a file of a day covers all of its hours
			p.files = append(p.files, &planned{begin: start, end: start.Add(24 * time.Hour)})
			for i := range 24 {
				there[i] = true
			}
		}
		rng.Shuffle(len(p.files), func(i, j int) { p.files[i], p.files[j] = p.files[j], p.files[i] })
		got := uncoveredHours(p)
		switch missing := slices.Index(there, false); {
		case missing < 0:
			if got != "" {
				t.Fatalf("%v: %q", there, got)
			}
		case missing == 0 && len(p.files) > 0:
			first := start.Add(time.Duration(slices.Index(there, true)) * time.Hour)
			if want := "the history starts at " + first.Format(time.DateTime); got != want {
				t.Fatalf("%v: %q, want %q", there, got, want)
			}
		default:
			if want := start.Add(time.Duration(missing) * time.Hour).Format(time.DateTime); !strings.HasSuffix(got, "no rollup of the time from "+want) {
				t.Fatalf("%v: %q, want %s", there, got, want)
			}
		}
	}
}
