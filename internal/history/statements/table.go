package statements

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// A TableReader describes statements by all counts of a Table.
type TableReader struct{ Table *stmtstats.Table }

// Top ranks the Keys. From and To of the result are the time since which the table counts and now, whatever
// range q has. The result has neither points nor counts of the previous range.
func (of TableReader) Top(_ context.Context, q TopQuery) (*Top, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	t := of.Table
	f, _ := parseFilter(q.Filter) // Validate has parsed it
	r := tableRanking{table: t, query: &q, filter: f}
	if err := t.Scan(&r.sample, r.reset, r.visit); err != nil {
		return nil, err
	}
	top := &Top{From: timeAt(r.first), To: t.Now(), Source: SourceCounters, Total: newTotals(&r.all, &r.spread), Matching: r.matching}
	if r.first == 0 {
		top.From = timeAt(r.last)
	}
	var s stmtstats.Sample
	for _, r := range q.page(r.rows) {
		if !t.ReadEntry(&s, int(r.number)) || s.ID != r.id {
			continue // evicted since
		}
		row := TopRow{Key: s.Key, Totals: newTotals(&s.Counts, &s.Histogram), First: s.First, Last: s.Last, New: !s.First.Before(q.From)}
		row.Text, row.TextCut = t.TextAt(int(r.number), s.ID)
		if q.Durations {
			row.Durations = s.Histogram.NonEmpty()
		}
		top.Rows = append(top.Rows, row)
	}
	return top, nil
}

// A tableRanking adds up all counts of a table, and ranks the Keys that match.
type tableRanking struct {
	table  *stmtstats.Table
	query  *TopQuery
	filter filter
	sample stmtstats.Sample

	all         stmtstats.Counts
	spread      stmtstats.Histogram
	rows        []ranked
	matching    int
	first, last int64 // Unix nanoseconds
}

// reset discards the added counts.
func (r *tableRanking) reset() {
	r.all, r.rows, r.matching, r.first, r.last = stmtstats.Counts{}, r.rows[:0], 0, 0, 0
	r.spread.Reset()
}

// visit adds the sample of an entry.
func (r *tableRanking) visit(number int) {
	s := &r.sample
	if !s.Counts.Any() {
		return
	}
	r.all.Add(&s.Counts)
	r.spread.Merge(&s.Histogram)
	begin, end := s.First.UnixNano(), s.Last.UnixNano()
	if s.Kind != stmtstats.Other && (r.first == 0 || begin < r.first) {
		r.first = begin
	}
	r.last = max(r.last, end)
	if s.Kind != stmtstats.Tracked {
		return
	}
	var text string
	if r.filter.wantText {
		text, _ = r.table.TextAt(number, s.ID)
	}
	if !r.filter.matches(&s.Key, text) {
		return
	}
	if r.matching++; !s.Last.Before(r.query.CalledSince) {
		row := ranked{number: uint32(number), id: s.ID}
		switch r.query.By {
		case ByP99:
			row.value = float64(s.Histogram.Quantile(0.99))
		case ByFirstSeen:
			row.value = float64(begin)
		default:
			row.value = measures[r.query.By].value(&s.Counts)
		}
		r.rows = append(r.rows, row)
	}
}

// Statement describes one digest, with its slowest recent calls. The result has neither series nor heat.
func (of TableReader) Statement(_ context.Context, q StatementQuery) (*Statement, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	t := of.Table
	digest, _ := stmtseries.ParseDigest(q.Digest) // Validate has parsed it
	st := &Statement{Digest: digest, To: t.Now(), Source: SourceCounters}
	var all stmtstats.Counts
	var spread stmtstats.Histogram
	var s stmtstats.Sample
	t.ReadDigest(&s, digest, func(number int) {
		all.Add(&s.Counts)
		spread.Merge(&s.Histogram)
		st.Parts = append(st.Parts, StatementPart{Key: s.Key, Totals: newTotals(&s.Counts, &s.Histogram), First: s.First, Last: s.Last})
		st.seen(s.First, s.Last)
		if st.Text == "" {
			st.Text, st.TextCut = t.TextAt(number, s.ID)
		}
		st.Slow = t.SlowCalls(st.Slow, s.ID)
	})
	if !all.Any() {
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

// seen extends the time between the first and the last call.
func (st *Statement) seen(first, last time.Time) {
	if !first.IsZero() && (st.First.IsZero() || first.Before(st.First)) {
		st.First = first
	}
	if last.After(st.Last) {
		st.Last = last
	}
}

// finish computes the fields that depend on all parts.
func (st *Statement) finish(all *stmtstats.Counts, spread *stmtstats.Histogram) {
	st.Totals = newTotals(all, spread)
	st.Classes = [stmtstats.ErrorClasses]uint64(all[stmtstats.Errors:])
	slices.SortFunc(st.Parts, func(a, b StatementPart) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.User, b.User), cmp.Compare(a.Backend, b.Backend))
	})
	slices.SortStableFunc(st.Slow, func(a, b stmtstats.SlowCall) int { return cmp.Compare(b.Duration, a.Duration) })
}
