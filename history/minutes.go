package history

import (
	"fmt"
	"sync"
	"time"

	"github.com/taredb/tare/rollup"
	"github.com/taredb/tare/sizegen/heapsize"
	"github.com/taredb/tare/stmtstats"
)

// A minute is what all statements together had counted at one time.
type minute struct {
	at     int64 // Unix milliseconds
	counts rollup.Counts
	spread []byte
}

// minutes are those of the last hours, since the process began. They tell what all statements did where there are too many
// samples to add up.
type minutes struct {
	mu   sync.Mutex
	kept []minute // under mu: the oldest first

	counts rollup.Counts       // of the round under way, as all below; the writer's
	spread stmtstats.Histogram // of it
}

// begin begins a round that visits all Keys.
func (t *minutes) begin() {
	t.counts = rollup.Counts{}
	t.spread.Reset()
}

// add adds a Key.
func (t *minutes) add(s *stmtstats.Sample) {
	c := countsOf(s)
	t.counts.Add(&c)
	t.spread.Merge(&s.Histogram)
}

// end keeps the sums of the round, which had visited all Keys at that time.
func (t *minutes) end(at int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	oldest := at - (shortRange + 2*refreshAge).Milliseconds()
	drop := 0
	for drop < len(t.kept) && t.kept[drop].at < oldest {
		drop++
	}
	t.kept = append(t.kept[:0], t.kept[drop:]...)
	clear(t.kept[len(t.kept):cap(t.kept)])
	t.kept = append(t.kept, minute{at: at, counts: t.counts, spread: t.spread.AppendSpread(nil)})
}

// within are those that tell of a time: from the newest one before its beginning to the newest in it.
func (t *minutes) within(from, to time.Time) []minute {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := append([]minute(nil), t.kept...)
	for len(kept) > 1 && kept[1].at <= from.UnixMilli() {
		kept = kept[1:]
	}
	for len(kept) > 0 && kept[len(kept)-1].at > to.UnixMilli() {
		kept = kept[:len(kept)-1]
	}
	return kept
}

func (t *minutes) heapBytes() (bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.kept {
		bytes += int64(heapsize.Bytes(t.kept[i].spread))
	}
	return bytes + int64(heapsize.Slice(t.kept))
}

// addBetween adds what was counted from one total to the next. A Key that makes room while a round goes on may lack in it: then there is
// less in the second, and what is owed is carried over as totalPoint.owe does.
func (x axis) addBetween(points []totalPoint, a, b *minute) error {
	var before, after stmtstats.Histogram
	if err := before.AddSpread(a.spread); err != nil {
		return err
	}
	if err := after.AddSpread(b.spread); err != nil {
		return err
	}
	x.share(time.UnixMilli(a.at), time.UnixMilli(b.at), func(i int, from, to float64) {
		part, p := to-from, &points[i]
		grown := func(b, a uint64) float64 { return part * float64(int64(b-a)) }
		p.errors += grown(b.counts.Failed(), a.counts.Failed())
		p.nanos += grown(b.counts.Nanos, a.counts.Nanos)
		p.zero += grown(after.Zero, before.Zero)
		p.used |= after.Octaves | before.Octaves
		for n := range p.buckets {
			if after.Buckets[n] != before.Buckets[n] {
				p.buckets[n] += grown(after.Buckets[n], before.Buckets[n])
			}
		}
	})
	return nil
}

// fewMinutes is up to how many minutes of Keys the samples are added up for a chart, which show more than a sum a minute does: some
// 100,000 samples where all Keys are called in each interval of 15 seconds.
const fewMinutes = 16 << 10

// minutesFor are what a chart is made of, nil where samples are to be added up: because they are few, or because there is nothing else.
func (a *Archive) minutesFor(from, to time.Time) []minute {
	w := a.current().writer
	if minutes := int64(to.Sub(from) / refreshAge); w.counts.keys.Load()*max(minutes, 1) <= a.few {
		return nil
	}
	if of := w.minutes.within(from, to); len(of) > 1 {
		return of
	}
	return nil
}

// seriesOfMinutes makes the chart of all statements, on the axis of the rows.
func (top *Top) seriesOfMinutes(x axis, of []minute) error {
	all := make([]totalPoint, x.n)
	for i := range of[1:] {
		if err := x.addBetween(all, &of[i], &of[i+1]); err != nil {
			return err
		}
	}
	if begin := time.UnixMilli(of[0].at).UTC(); begin.After(x.from.Add(refreshAge)) {
		top.Notes = append(top.Notes, fmt.Sprintf("the chart of all statements starts at %s, when this process started", begin.Format(time.DateTime)))
	}
	top.Series.fill(x, all)
	return nil
}
