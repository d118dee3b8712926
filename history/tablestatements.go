package history

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/taredb/tare/stmtstats"
)

// TableStatements ranks and describes the statements that a Table counts, by all that it has counted.
type TableStatements struct{ Table *stmtstats.Table }

// scanAttempts is how often a table is read in the hope that nothing is evicted meanwhile.
const scanAttempts = 3

// Top ranks the Keys. From and To of the result are the time in which the table has counted, whatever q asks for. It
// has neither points nor counts of the time before.
func (of TableStatements) Top(ctx context.Context, q TopQuery) (*Top, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	t := of.Table
	f, _ := parseFilter(q.Filter) // Validate has read it
	var all counts
	var spread stmtstats.Histogram
	var rows []ranked
	var first, last int64
	for attempt := range scanAttempts {
		all, rows, first, last = counts{}, rows[:0], 0, 0
		spread.Reset()
		var s stmtstats.Sample
		whole, err := t.Scan(&s, func(number int) {
			if s.Calls == 0 {
				return
			}
			c := countsOf(&s)
			all.add(&c)
			spread.Merge(&s.Histogram)
			begin, end := s.First.UnixNano(), s.Last.UnixNano()
			if s.Kind != stmtstats.Other && (first == 0 || begin < first) {
				first = begin
			}
			last = max(last, end)
			if s.Kind != stmtstats.Tracked {
				return
			}
			var text string
			if f.wantText {
				text, _ = t.TextAt(number, s.ID)
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
	top := &Top{From: timeAt(first), To: t.Now(), Source: SourceCounters, Total: all.totals(&spread), Matching: len(rows)}
	if first == 0 {
		top.From = timeAt(last)
	}
	var s stmtstats.Sample
	for _, r := range q.page(rows) {
		if !t.ReadEntry(&s, int(r.number)) || s.ID != r.id {
			continue // evicted since
		}
		c := countsOf(&s)
		row := TopRow{Key: s.Key, Totals: c.totals(&s.Histogram), First: s.First, Last: s.Last, New: !s.First.Before(q.From)}
		row.Text, row.TextCut = t.TextAt(int(r.number), s.ID)
		top.Rows = append(top.Rows, row)
	}
	return top, nil
}

// Statement describes one digest, with its slowest recent calls. The result has neither series nor heat.
func (of TableStatements) Statement(_ context.Context, q StatementQuery) (*Statement, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	t := of.Table
	digest, _ := parseDigest(q.Digest) // Validate has read it
	st := &Statement{Digest: digest, To: t.Now(), Source: SourceCounters}
	var all counts
	var spread stmtstats.Histogram
	for _, number := range t.EntriesOf(digest) {
		var s stmtstats.Sample
		if !t.ReadEntry(&s, number) || s.Digest != digest {
			continue // evicted since
		}
		c := countsOf(&s)
		all.add(&c)
		spread.Merge(&s.Histogram)
		st.Parts = append(st.Parts, StatementPart{Key: s.Key, Totals: c.totals(&s.Histogram), First: s.First, Last: s.Last})
		st.seen(s.First, s.Last)
		if st.Text == "" {
			st.Text, st.TextCut = t.TextAt(number, s.ID)
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

// timeAt returns the time of Unix nanoseconds, the zero time for 0.
func timeAt(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
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
func (st *Statement) finish(all *counts, spread *stmtstats.Histogram) {
	st.Totals = all.totals(spread)
	st.Classes = all.errors
	slices.SortFunc(st.Parts, func(a, b StatementPart) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.User, b.User), cmp.Compare(a.Backend, b.Backend))
	})
	slices.SortStableFunc(st.Slow, func(a, b stmtstats.SlowCall) int { return cmp.Compare(b.Duration, a.Duration) })
}
