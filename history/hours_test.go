package history

import (
	"errors"
	"testing"
	"time"

	"github.com/taredb/tare/rollup"
	"github.com/taredb/tare/stmtstats"
)

// sumOfRollups returns the calls in all hours of the current instance.
func sumOfRollups(t *testing.T, a *Archive) uint64 {
	t.Helper()
	store := a.current().rollups
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

// TestRollupAfterFullDisk has a disk full across the end of an hour while a new Key is called: its zero sample lies within the
// time without samples. The hours add up to the calls all the same.
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
	if got, want := sumOfRollups(t, h.archive), uint64(2*60+2*240)+300; got != want {
		t.Errorf("the rollups have %d calls, want %d", got, want)
	}
}

// TestTopAfterPause asks for the time after a pause in writing whose beginning is just within the five minutes before it: counters of
// Keys that were not written in them are no growth.
func TestTopAfterPause(t *testing.T) {
	h := newHourglass(t, nil)
	for n := range 40 {
		h.model.call(n, h.now, time.Millisecond, false)
	}
	for range 12 { // the samples of Keys that are not called are up to a minute old
		h.model.call(0, h.now, time.Millisecond, false)
		h.round(10 * time.Second)
	}
	h.must(h.archive.Close())
	closed := h.now
	h.now, h.elapsed = h.now.Add(10*time.Minute), h.elapsed+10*time.Minute
	h.reopen()
	h.model.call(0, h.now, time.Millisecond, false)
	h.round(time.Second)
	h.round(time.Second)
	for after := time.Second; after < 10*time.Minute; after += 5 * time.Second {
		top, err := h.archive.Top(t.Context(), TopQuery{From: closed.Add(after), To: h.now})
		if err != nil {
			t.Fatal(err)
		}
		if top.Total.Calls != 1 {
			t.Errorf("%v after the last sample: %d calls, want 1", after, top.Total.Calls)
		}
	}
}
