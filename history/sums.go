package history

import (
	"sync"
	"time"

	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/sizegen/heapsize"
)

// SumsAge is how long sums of all statements are kept.
const SumsAge = 6 * time.Hour

// A Sum has the total counters of all statements at one point in time.
type Sum struct {
	At     int64 // Unix milliseconds
	Counts stmtstats.Counts
	Spread []byte
}

// sums are the totals of recent hours, since the process started.
type sums struct {
	mu   sync.Mutex
	kept []Sum // under mu: the oldest first

	counts stmtstats.Counts    // of the current round, as all below; used by the writer
	spread stmtstats.Histogram // of the current round
}

// reset starts a round that visits all Keys.
func (t *sums) reset() {
	t.counts = stmtstats.Counts{}
	t.spread.Reset()
}

// add adds a Key.
func (t *sums) add(s *stmtstats.Sample) {
	t.counts.Add(&s.Counts)
	t.spread.Merge(&s.Histogram)
}

// store stores the sums of the round, which had visited all Keys at that time.
func (t *sums) store(at int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	oldest := at - (SumsAge + 2*RefreshAge).Milliseconds()
	drop := 0
	for drop < len(t.kept) && t.kept[drop].At < oldest {
		drop++
	}
	t.kept = append(t.kept[:0], t.kept[drop:]...)
	clear(t.kept[len(t.kept):cap(t.kept)])
	t.kept = append(t.kept, Sum{At: at, Counts: t.counts, Spread: t.spread.AppendSpread(nil)})
}

// Sums returns the sums of a time range, from the newest one before its start to the newest in it.
func (a *Archive) Sums(from, to time.Time) []Sum {
	in := a.current()
	if in == nil {
		return nil
	}
	t := &in.writer.sums
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := append([]Sum(nil), t.kept...)
	for len(kept) > 1 && kept[1].At <= from.UnixMilli() {
		kept = kept[1:]
	}
	for len(kept) > 0 && kept[len(kept)-1].At > to.UnixMilli() {
		kept = kept[:len(kept)-1]
	}
	return kept
}

func (t *sums) heapBytes() (bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.kept {
		bytes += int64(heapsize.Bytes(t.kept[i].Spread))
	}
	return bytes + int64(heapsize.Slice(t.kept))
}
