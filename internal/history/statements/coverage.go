package statements

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtseries"
)

// coverageDigests is the number of statements whose samples show when the gateway was counting: each is written at least
// every history.RefreshAge, called or not.
const coverageDigests = 8

// checkCoverage sets top.NoComparison if a part of its range, or of the one before, was not counted: before the first
// sample, in downtime, or in a gap. before is the plan of the range before.
func (a *ArchiveReader) checkCoverage(ctx context.Context, top *Top, before *plan) (err error) {
	if top.Source == SourceRollups {
		top.NoComparison = uncoveredHours(before)
		return nil
	}
	rows := slices.Clone(top.Rows)
	slices.SortFunc(rows, func(a, b TopRow) int { return cmp.Compare(b.Before.Calls, a.Before.Calls) })
	var digests [][16]byte
	for i := range rows[:min(len(rows), coverageDigests)] {
		if rows[i].Before.Calls > 0 {
			digests = append(digests, rows[i].Digest)
		}
	}
	from := top.From.Add(-top.To.Sub(top.From).Truncate(time.Second))
	if len(digests) == 0 {
		return nil // there is nothing to compare with
	}
	gap := history.RefreshAge + 2*a.options.Interval
	start := int64(math.MaxInt64)
	for _, in := range a.archive.Instances() {
		start = min(start, localdb.Start(in.Samples.Current()))
	}
	var times []int64
	for _, part := range a.sampledParts(from, top.To) {
		samples := stmtseries.Range{
			DB: part.Samples, From: from.Add(-gap).UnixMilli(), To: top.To.UnixMilli(), Digests: digests, Limit: maxWalk, Counts: readingOf(ctx).counts(),
		}
		if err := samples.Read(ctx, []stmtseries.Metric{stmtseries.Queries}, func(s *stmtseries.Samples) error {
			for s.Next() {
				if !s.Stale {
					times = append(times, s.T)
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	slices.Sort(times)
	top.NoComparison = uncovered(slices.Compact(times), start, from.UnixMilli(), top.To.UnixMilli(), gap.Milliseconds())
	return nil
}

// uncovered describes the first part of a range without samples for longer than gap, in milliseconds; "" if there is none.
// start is the start of the history.
func uncovered(times []int64, start, from, to, gap int64) string {
	last := from
	for _, t := range append(times, to) {
		switch {
		case t-last <= gap:
		case last == from && start > from+gap:
			return "the history starts at " + clockOf(max(start, from))
		default:
			return fmt.Sprintf("there are no samples from %s to %s", clockOf(last), clockOf(t))
		}
		last = max(last, t)
	}
	return ""
}

func clockOf(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.DateTime) }

// uncoveredHours describes the first hours of a plan without a rollup; "" if there is none. Within an hour, downtime is
// unknown.
func uncoveredHours(p *plan) string {
	files := slices.Clone(p.files)
	slices.SortFunc(files, func(a, b *planned) int { return a.begin.Compare(b.begin) })
	covered := p.from
	for _, f := range files {
		if f.begin.After(covered.Add(rollup.Hour / 60)) {
			break
		}
		if f.end.After(covered) {
			covered = f.end
		}
	}
	if !covered.Before(p.to) {
		return ""
	}
	if covered.Equal(p.from) && len(files) > 0 {
		return "the history starts at " + clockOf(files[0].begin.UnixMilli())
	}
	return "no rollup of the time from " + clockOf(covered.UnixMilli())
}
