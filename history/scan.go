package history

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"time"
)

// scan visits Evicted, Other and every digest that is tracked, with s, without keeping a Collect or an
// eviction out for longer than one entry takes. number is 0 for the sums. It reports false if a digest was
// evicted meanwhile: the sum over all visits may lack it then.
func (t *Table) scan(s *Sample, visit func(number int)) (whole bool, err error) {
	t.mu.Lock()
	if t.closed.Load() {
		t.mu.Unlock()
		return false, errClosed
	}
	evictions := t.evictions
	t.copyEvicted(s)
	t.mu.Unlock()
	visit(0)
	for i := range t.mem.entries {
		if t.scanEntry(s, i) {
			visit(i)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return evictions == t.evictions, nil
}

// room is how many entries there are, and the two sums.
func (t *Table) room() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live + 2
}

// scanEntry reads one entry, if it is live, into s but its text.
func (t *Table) scanEntry(s *Sample, number int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := &t.mem.entries[number]
	if t.closed.Load() || e.state() != gateLive {
		return false
	}
	kind := Tracked
	if number == 0 {
		kind = Other
	}
	t.copyLocked(s, e, kind)
	if kind == Tracked {
		s.Key = t.names.key(e, t.mem.pages)
	}
	return true
}

// copyLocked reads a live entry between two writes. It is called with the lock held.
func (t *Table) copyLocked(s *Sample, e *entry, kind Kind) {
	for range readAttempts {
		before := e.gate.Load()
		if before&gateInside == 0 {
			t.mem.copyEntry(s, e, kind)
			if e.gate.Load() == before {
				return
			}
		}
		runtime.Gosched()
	}
	e.seal()
	t.mem.copyEntry(s, e, kind)
	e.turn(gateSealed, gateLive)
}

// scanAttempts is how often a table is read in the hope that nothing is evicted meanwhile.
const scanAttempts = 3

// Top ranks the digests by all that the table has counted, which is since it began: From and To of
// the answer say when that is. Neither points nor what was before are known.
func (t *Table) Top(ctx context.Context, q TopQuery) (*Top, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	f, _ := parseFilter(q.Filter) // Validate has read it
	var all counts
	var spread Histogram
	var rows []ranked
	var first, last int64
	for attempt := range scanAttempts {
		all, rows, first, last = counts{}, rows[:0], 0, 0
		spread.Reset()
		var s Sample
		whole, err := t.scan(&s, func(number int) {
			if s.Calls == 0 {
				return
			}
			c := countsOf(&s)
			all.add(&c)
			spread.Merge(&s.Histogram)
			begin, end := s.First.UnixNano(), s.Last.UnixNano()
			if s.Kind != Other && (first == 0 || begin < first) {
				first = begin
			}
			last = max(last, end)
			if s.Kind != Tracked {
				return
			}
			var text string
			if f.wantText {
				text, _ = t.textOfNumber(number, s.ID)
			}
			if f.matches(&s.Key, text) {
				p99 := func() time.Duration { return s.Histogram.Quantile(0.99) }
				rows = append(rows, ranked{value: q.By.value(&c, begin, p99), number: uint32(number), id: s.ID})
			}
		})
		if err != nil {
			return nil, err
		}
		if whole || attempt == scanAttempts-1 {
			break
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	top := &Top{From: at(first), To: t.opts.Now(), Source: SourceCounters, Total: all.totals(&spread), Matching: len(rows)}
	if first == 0 {
		top.From = at(last)
	}
	var s Sample
	for _, r := range q.page(rows) {
		if !t.scanEntry(&s, int(r.number)) || s.ID != r.id {
			continue // evicted since
		}
		c := countsOf(&s)
		row := TopRow{Key: s.Key, Totals: c.totals(&s.Histogram), First: s.First, Last: s.Last, New: !s.First.Before(q.From)}
		row.Text, row.TextCut = t.textOfNumber(int(r.number), s.ID)
		top.Rows = append(top.Rows, row)
	}
	return top, nil
}

// textOfNumber is the text of an entry, "" if it is not the one with this ID any more.
func (t *Table) textOfNumber(number int, id uint64) (text string, cut bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := &t.mem.entries[number]
	if t.closed.Load() || e.state() != gateLive || e.id != id {
		return "", false
	}
	return t.textOf(e)
}

// Statement tells all that the table has counted of one digest, which is since it began, and the
// slowest calls of late. It has neither series nor heat.
func (t *Table) Statement(_ context.Context, q StatementQuery) (*Statement, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	digest, _ := parseDigest(q.Digest) // Validate has read it
	st := &Statement{Digest: digest, To: t.opts.Now(), Source: SourceCounters}
	var all counts
	var spread Histogram
	for _, number := range t.numbersOf(digest) {
		var s Sample
		if !t.scanEntry(&s, number) || s.Digest != digest {
			continue // evicted since
		}
		c := countsOf(&s)
		all.add(&c)
		spread.Merge(&s.Histogram)
		st.Parts = append(st.Parts, StatementPart{Key: s.Key, Totals: c.totals(&s.Histogram), First: s.First, Last: s.Last})
		st.seen(s.First, s.Last)
		if st.Text == "" {
			st.Text, st.TextCut = t.textOfNumber(number, s.ID)
		}
		st.Slow = t.SlowCalls(st.Slow, s.ID)
	}
	if all.calls == 0 {
		return nil, ErrNoStatement
	}
	st.From = st.First
	st.finish(&all, &spread)
	return st, nil
}

// numbersOf are the entries of a digest.
func (t *Table) numbersOf(digest [16]byte) (numbers []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed.Load() {
		return nil
	}
	for i := 1; i < len(t.mem.entries); i++ {
		if e := &t.mem.entries[i]; e.digest == digest && e.state() == gateLive {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// seen widens the time between the first and the last call.
func (st *Statement) seen(first, last time.Time) {
	if !first.IsZero() && (st.First.IsZero() || first.Before(st.First)) {
		st.First = first
	}
	if last.After(st.Last) {
		st.Last = last
	}
}

// finish sets what follows from all parts.
func (st *Statement) finish(all *counts, spread *Histogram) {
	st.Totals = all.totals(spread)
	st.Classes = all.errors
	slices.SortFunc(st.Parts, func(a, b StatementPart) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.User, b.User), cmp.Compare(a.Backend, b.Backend))
	})
	slices.SortStableFunc(st.Slow, func(a, b SlowCall) int { return cmp.Compare(b.Duration, a.Duration) })
}
