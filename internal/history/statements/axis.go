package statements

import (
	"time"

	"github.com/taredb/tare/internal/history/rollup"
)

// An axis divides a time range into points. Counts between two times are divided among the points that they
// span, in proportion.
type axis struct {
	from time.Time
	step time.Duration
	n    int
	end  time.Time // of the last point, which may be shorter than the others, or longer by less than a tenth
}

// newAxis divides a range into at most n points of a whole number of units.
func newAxis(from, to time.Time, n int, unit time.Duration) axis {
	units := max(1, int64((to.Sub(from)+unit-1)/unit))
	each := (units + int64(n) - 1) / int64(n)
	x := axis{from: from, step: time.Duration(each) * unit, n: int((units + each - 1) / each), end: to}
	if x.n > 1 && to.Sub(from)-time.Duration(x.n-1)*x.step < x.step/10 {
		x.n-- // too short to be a point
	}
	return x
}

// evenAxis divides a range into at most n points of equal length, none shorter than least. It has no points
// if the range is empty.
func evenAxis(from, to time.Time, n int, least time.Duration) axis {
	length := to.Sub(from)
	if length <= 0 {
		return axis{from: from, step: least, end: from}
	}
	n = int(min(int64(n), max(int64(length/least), 1)))
	return axis{from: from, step: length / time.Duration(n), n: n, end: to}
}

// axisOf returns the points of a result. Points of samples are at least as long as the interval between two
// rounds and end at the newest complete round: later calls are unknown, which must not look like a pause.
// Points of rollups are whole hours, or days if hours are no longer kept, and end now.
func (a *ArchiveReader) axisOf(p *plan, n int) axis {
	if p.source == SourceSamples {
		to := p.to
		if whole := a.archive.Whole(); !whole.IsZero() && whole.Before(to) {
			to = whole
		}
		return evenAxis(p.from, to, n, a.options.Interval)
	}
	unit := rollup.Hour
	if a.archive.Now().Sub(p.from) > rollup.HourAge {
		unit = rollup.Day
	}
	return newAxis(p.from, p.to, n, unit)
}

// point returns the point of a time. Both ends belong to the axis.
func (x axis) point(t time.Time) int {
	return min(max(int(t.Sub(x.from)/x.step), 0), x.n-1)
}

// length returns the length of a point.
func (x axis) length(point int) time.Duration {
	if point < x.n-1 {
		return x.step
	}
	return x.end.Sub(x.from) - time.Duration(point)*x.step
}

// series returns a Series of the points.
func (x axis) series() Series {
	s := Series{Times: make([]time.Time, x.n), Step: x.step, End: x.end}
	for i := range s.Times {
		s.Times[i] = x.from.Add(time.Duration(i) * x.step)
	}
	return s
}

// divide visits the points that (since, to] spans, with the fractions, from 0 to 1, between which it is in
// each point. Parts outside of the axis are skipped. If both times are equal, all of it is at that time.
func (x axis) divide(since, to time.Time, visit func(point int, from, to float64)) {
	if x.n == 0 || !to.After(x.from) || !since.Before(x.end) {
		return
	}
	length := to.Sub(since)
	if length <= 0 {
		visit(x.point(to.Add(-1)), 0, 1)
		return
	}
	part := func(t time.Time) float64 { return min(max(float64(t.Sub(since))/float64(length), 0), 1) }
	i := 0
	if since.After(x.from) {
		i = x.point(since)
	}
	before := part(x.from.Add(time.Duration(i) * x.step))
	for ; i < x.n && before < 1; i++ {
		until := x.end
		if i < x.n-1 {
			until = x.from.Add(time.Duration(i+1) * x.step)
		}
		after := part(until)
		if after > before {
			visit(i, before, after)
		}
		before = after
	}
}
