package rollup_test

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/testrollup"
)

// TestDetailsReuseMemory reads the details of the same Keys repeatedly: the result is the same each time, and the memory of
// histograms and windows is reused.
func TestDetailsReuseMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // keeps the pools from being emptied
	r := testrollup.Random(rand.New(rand.NewPCG(5, 6)), testrollup.Start(), 5000)
	text := testrollup.Encode(t, r)
	f, err := rollup.Open(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	read := func() (sum uint64) {
		var details []*rollup.Detail
		for i := 0; i < len(r.Rows); i += 50 {
			details = append(details, &rollup.Detail{Print: r.Rows[i].Print, Known: true}) // without texts: each reader has a decoder
		}
		reader := rollup.NewDetailReader(details)
		defer reader.Close()
		defer rollup.Release(details)
		if err := reader.Add(f); err != nil {
			t.Fatal(err)
		}
		for i, d := range details {
			want := &r.Rows[50*i]
			if d.Counts != want.Counts || d.Durations().Nanos != want.Counts[stmtstats.Nanos] || !bytes.Equal(d.Durations().AppendSpread(nil), want.Spread) {
				t.Fatalf("row %d: %+v, want %+v", 50*i, d.Counts, want.Counts)
			}
			sum += d.Durations().Count()
		}
		return sum
	}
	first := read()
	const runs = 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		if sum := read(); sum != first {
			t.Errorf("%d calls, want %d", sum, first)
		}
	}
	runtime.ReadMemStats(&after)
	const histograms = 100 * 9 << 10
	if bytes := (after.TotalAlloc - before.TotalAlloc) / runs; bytes > histograms/2 {
		t.Errorf("%d bytes each time, want at most half of the histograms' %d", bytes, histograms)
	}
}
