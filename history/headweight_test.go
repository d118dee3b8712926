package history_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/localdb"
)

// TestHeadWeight compares the computed weight of a head with its growth of the heap: with few series and
// many, after the first round, after an hour, and after chunks were closed.
func TestHeadWeight(t *testing.T) {
	for _, digests := range []int{200, 600} {
		db, err := localdb.OpenHead(t.TempDir(), slog.New(slog.DiscardHandler), nil, func([]*tsdb.Block) map[ulid.ULID]struct{} { return nil })
		if err != nil {
			t.Fatal(err)
		}
		now := time.UnixMilli(1_700_000_000_000)
		m := newModel()
		w, err := history.NewHeadWriter(db, m, time.Minute, func() time.Time { return now })
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 1))
		for n := range digests {
			m.call(n, now, time.Duration(r.ExpFloat64()*float64(5*time.Millisecond)), r.IntN(20) == 0)
		}
		empty := heapNow()
		for round := range 151 {
			for n := range digests {
				if r.IntN(4) == 0 {
					m.call(n, now, time.Duration(r.ExpFloat64()*float64(5*time.Millisecond)), r.IntN(100) == 0)
				}
			}
			now = now.Add(time.Minute)
			if err := w.Round(t.Context()); err != nil {
				t.Fatal(err)
			}
			if round != 0 && round != 60 && round != 150 {
				continue
			}
			db.ForceHeadMMap()
			grown := heapNow() - empty
			got, err := w.HeapBytes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			what := fmt.Sprintf("%d digests, round %d", digests, round)
			t.Logf("%s: %d series, %d bytes, said to be %d (%+.1f %%)", what, db.Head().NumSeries(), grown, got, 100*float64(got-grown)/float64(grown))
			if off := float64(got-grown) / float64(grown); off < -0.07 || off > 0.07 {
				t.Errorf("%s: the head weighs %d bytes and is said to weigh %d: want within 10 %%", what, grown, got)
			}
		}
		runtime.KeepAlive(w)
		runtime.KeepAlive(m)
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
