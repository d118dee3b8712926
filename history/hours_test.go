package history

import (
	"errors"
	"testing"
	"time"

	"github.com/taredb/tare/rollup"
	"github.com/taredb/tare/stmtstats"
)

// sumOfRollups returns the calls in all hours.
func sumOfRollups(t *testing.T, store *rollup.Store) uint64 {
	t.Helper()
	var all rollup.Counts
	var spread stmtstats.Histogram
	for _, n := range store.List(func(n rollup.Name) bool { return n.Span == rollup.Hour }) {
		f, err := store.Open(n)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.AddTotals(&all, &spread), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return all.Calls
}

// TestRollupAfterFullDisk has a full disk across the end of an hour while a new Key is called: its zero
// sample lies within the range without samples. The hours nevertheless add up to the calls.
func TestRollupAfterFullDisk(t *testing.T) {
	h := newHourglass(t, nil)
	rounds := func(d time.Duration, keys ...int) {
		for range d / (10 * time.Second) {
			h.now, h.elapsed = h.now.Add(10*time.Second), h.elapsed+10*time.Second
			for _, k := range keys {
				h.model.call(k, h.now, time.Millisecond, false)
			}
			if err := h.archive.round(t.Context(), false); err != nil && !errors.Is(err, errStopped) {
				t.Fatal(err)
			}
		}
	}
	h.now = h.now.Truncate(time.Hour).Add(20 * time.Minute)
	rounds(10*time.Minute, 1, 2)
	reserve := h.archive.options.ReserveBytes
	h.archive.options.ReserveBytes = 1 << 60 // more than any disk has
	rounds(40*time.Minute, 1, 3)
	h.archive.options.ReserveBytes = reserve
	rounds(time.Hour, 1)
	in := h.archive.current()
	if err := in.rollups.Work(t.Context(), hourSamples{in}, in.settled.Load()); err != nil {
		t.Fatal(err)
	}
	if got, want := sumOfRollups(t, in.rollups), uint64(2*60+2*240)+300; got != want {
		t.Errorf("the rollups have %d calls, want %d", got, want)
	}
}
