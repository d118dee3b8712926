package blocksync

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/common/model"
)

// A TimeBound is an end of a TimeRange: a time, or a duration from the current time. The zero TimeBound is no bound.
type TimeBound struct {
	at     time.Time
	offset time.Duration // from the current time; used if at is zero
	text   string
}

// ParseTimeBound parses a time as in RFC 3339, or a duration from the current time: "-2w" is two weeks ago. Thanos accepts the
// same. "" means no bound.
func ParseTimeBound(s string) (TimeBound, error) {
	if s == "" {
		return TimeBound{}, nil
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return TimeBound{at: at, text: s}, nil
	}
	rest, past := strings.CutPrefix(s, "-")
	d, err := model.ParseDuration(rest)
	if err != nil {
		return TimeBound{}, fmt.Errorf("time %q: want a time like 2026-01-31T00:00:00Z, or a duration from now like -2w", s)
	}
	b := TimeBound{offset: time.Duration(d), text: s}
	if past {
		b.offset = -b.offset
	}
	return b, nil
}

// String returns the text from which the bound was parsed.
func (b TimeBound) String() string { return b.text }

// millis returns the bound in Unix milliseconds.
func (b TimeBound) millis(now time.Time) int64 {
	if b.at.IsZero() {
		return now.Add(b.offset).UnixMilli()
	}
	return b.at.UnixMilli()
}

// A TimeRange is one process's part of the time when several processes share a bucket, both ends inclusive. The zero
// TimeRange is all time.
type TimeRange struct{ Min, Max TimeBound }

// IsZero reports whether the range is all time.
func (r TimeRange) IsZero() bool { return r == TimeRange{} }

// limits returns the ends in Unix milliseconds.
func (r TimeRange) limits(now time.Time) (lo, hi int64) {
	lo, hi = math.MinInt64, math.MaxInt64
	if r.Min != (TimeBound{}) {
		lo = r.Min.millis(now)
	}
	if r.Max != (TimeBound{}) {
		hi = r.Max.millis(now)
	}
	return lo, hi
}

// Validate returns an error if no time is in the range.
func (r TimeRange) Validate() error {
	if lo, hi := r.limits(time.Now()); lo > hi {
		return errors.New("the maximum time is before the minimum time: no block would be served")
	}
	return nil
}

// outside reports whether a block has no samples in the range.
func (r TimeRange) outside(t blockTimes) bool {
	lo, hi := r.limits(time.Now())
	return t.known && !t.overlaps(lo, hi)
}

// skip returns the verdict on a block that is outside.
func (r TimeRange) skip(t blockTimes) error {
	return skip(SkipTimeRange, "%s is outside the time range of this process, %s", t, r)
}

// outside returns the blocks that were skipped because of their times.
func (t *Tenant) outside() map[ulid.ULID]blockTimes {
	found := make(map[ulid.ULID]blockTimes)
	for i := range t.skipped {
		if b := &t.skipped[i]; b.Reason == SkipTimeRange {
			found[ulid.MustParse(b.ID)] = b.times
		}
	}
	return found
}

// String returns the range in the form of warnings.
func (r TimeRange) String() string {
	text := func(b TimeBound, none string) string {
		if b == (TimeBound{}) {
			return none
		}
		return b.text
	}
	return text(r.Min, "the beginning") + " to " + text(r.Max, "the end")
}

// Clip returns the part of a request's time, both ends inclusive, that is in the time range of the process. If there is
// none, no block overlaps the result. A request whose start is after its end keeps that order: as in Prometheus, it has
// the series of chunks around both times, without samples.
func (s *Syncer) Clip(mint, maxt int64) (from, to int64) {
	lo, hi := s.options.Times.limits(time.Now())
	from, to = max(mint, lo), min(maxt, hi)
	if from > to && mint <= maxt {
		return math.MaxInt64, math.MinInt64
	}
	return from, to
}

// clipped appends the gaps of served blocks that have samples in the part of a request that is outside the time range.
func (t *Tenant) clipped(gaps []*gap, mint, maxt int64, matches func(*gap) bool) []*gap {
	if t.times.IsZero() {
		return gaps
	}
	lo, hi := t.times.limits(time.Now())
	if mint >= lo && maxt <= hi {
		return gaps
	}
	for b := range t.overlapping(mint, maxt) {
		times := blockTimes{true, b.minTime, b.maxTime, b.external}
		before, after := mint < lo && times.overlaps(mint, min(maxt, lo-1)), maxt > hi && times.overlaps(max(mint, hi+1), maxt)
		if g := (&gap{id: b.id, times: times, external: b.external, reason: SkipTimeRange, detail: ""}); (before || after) && matches(g) {
			g.detail = "served only for " + t.times.String()
			gaps = append(gaps, g)
		}
	}
	return gaps
}
