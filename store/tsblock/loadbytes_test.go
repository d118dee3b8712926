package tsblock

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testseed"
)

// TestLoadBytes loads batches where exactly the planned bytes are free, and checks that planning fetches nothing.
func TestLoadBytes(t *testing.T) {
	dir := t.TempDir()
	shape := testblock.Shape{Count: 50, Samples: 1440, Interval: 15 * time.Second, Seed: 3}
	id, err := shape.Write(dir, testblock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	random := testseed.Rand(t)
	e := newEnv(t)
	b := e.open(t, dir, id)
	span := int64(50 * 1440 * 15_000)
	for range 60 {
		q, err := e.gate.Admit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r := b.Reader(q)
		p, err := r.Postings(t.Context(), labels.MustNewMatcher(labels.MatchEqual, "foo", "bar"))
		if err != nil {
			t.Fatal(err)
		}
		from := random.Int64N(span)
		s := Select{MinTime: from, MaxTime: from + random.Int64N(span), BatchBytes: 1 << (10 + random.IntN(10))}
		for series := r.Series(p, s); ; {
			batch, err := series.Next(t.Context())
			if errors.Is(err, ErrNoMoreSeries) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			before := r.Stats().Chunks
			planned, err := r.LoadBytes(batch)
			if err != nil {
				t.Fatal(err)
			}
			if r.Stats().Chunks != before || q.UsedFor(slab.Chunks) != 0 {
				t.Fatalf("planning read %+v and left %d bytes reserved", r.Stats().Chunks, q.UsedFor(slab.Chunks))
			}
			rest := q.Allowed() - q.Used() - planned // by others
			if err := q.Reserve(slab.ResponseBytes, rest); err != nil {
				t.Fatal(err)
			}
			if err := r.LoadChunks(t.Context(), batch); err != nil {
				t.Errorf("batch of %d series: %v, in the %d bytes that were planned", batch.Len(), err, planned)
			}
			q.Return(slab.ResponseBytes, rest)
			if held := q.UsedFor(slab.Chunks); planned > 2*held+16<<10 {
				t.Errorf("batch of %d series: planned %d bytes, held %d", batch.Len(), planned, held)
			}
			batch.Release()
		}
		r.Close()
		q.Close()
	}
}
