package history

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"
)

// TestHeadWeight compares what a head is said to weigh with what it adds to the heap: of few series and of many, after the
// first round, after an hour, and after the oldest half of it became a block.
func TestHeadWeight(t *testing.T) {
	for _, digests := range []int{300, 3000} {
		db, err := openHead(t.TempDir(), slog.New(slog.DiscardHandler), func([]*tsdb.Block) map[ulid.ULID]struct{} { return nil })
		if err != nil {
			t.Fatal(err)
		}
		now := time.UnixMilli(1_700_000_000_000)
		m := newModel()
		w, err := newWriter(db, m, newLabeller(map[string]string{"instance": "gw-1"}), time.Minute, func() time.Time { return now })
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 1))
		for n := range digests {
			m.call(n, now, time.Duration(r.ExpFloat64()*float64(5*time.Millisecond)), r.IntN(20) == 0)
		}
		empty := heapNow()
		for round := range 241 {
			for n := range digests {
				if r.IntN(4) == 0 {
					m.call(n, now, time.Duration(r.ExpFloat64()*float64(5*time.Millisecond)), r.IntN(100) == 0)
				}
			}
			now = now.Add(time.Minute)
			if err := w.round(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			if round != 0 && round != 60 && round != 240 {
				continue
			}
			if round == 240 {
				if err := db.Compact(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			db.ForceHeadMMap()
			grown := heapNow() - empty
			got, err := weighHead(t.Context(), db.Head())
			if err != nil {
				t.Fatal(err)
			}
			got += w.heapBytes()
			what := fmt.Sprintf("%d digests, round %d", digests, round)
			t.Logf("%s: %d series, %d bytes, said to be %d (%+.1f %%)", what, db.Head().NumSeries(), grown, got, 100*float64(got-grown)/float64(grown))
		}
		runtime.KeepAlive(w)
		runtime.KeepAlive(m)
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
