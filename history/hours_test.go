package history_test

import (
	"errors"
	"testing"
	"time"

	"github.com/taredb/tare/history"
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
			if err := h.archive.Round(t.Context()); err != nil && !errors.Is(err, history.ErrStopped) {
				t.Fatal(err)
			}
		}
	}
	h.now = h.now.Truncate(time.Hour).Add(20 * time.Minute)
	rounds(10*time.Minute, 1, 2)
	free := h.archive.FillDisk()
	rounds(40*time.Minute, 1, 3)
	free()
	rounds(time.Hour, 1)
	h.must(h.archive.RollUp(t.Context()))
	if got, want := sumOfRollups(t, h.current().Rollups), uint64(2*60+2*240)+300; got != want {
		t.Errorf("the rollups have %d calls, want %d", got, want)
	}
}
