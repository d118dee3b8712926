package web

import (
	"math"
	"strconv"
	"time"
)

// A rise is an interval in which a value was higher than in the rest of the range, such as the load of a
// statement that became heavier.
type rise struct {
	From, To        time.Time
	Lasts           bool    // until the end of the range
	Inside, Outside float64 // averages
	first, past     int     // its points: [first, past)
}

const (
	// riseTimes is the minimum factor of a rise, and riseExplains the minimum fraction of the variance that
	// the interval explains: no single interval explains half of noise or of periodic load.
	riseTimes    = 2
	riseExplains = 0.5

	// risePoints is the minimum number of points of a range, riseLength the minimum length of a rise in
	// points, and riseBefore the minimum fraction of points before it: clients that start are not a rise.
	risePoints = 12
	riseLength = 2
	riseBefore = 8

	// riseLate is the maximum gap at the end of a rise that lasts: the latest calls may not be sampled yet.
	riseLate = time.Minute
)

// findRise searches for a rise in points that start at times, the last of which ends at end. It ignores
// points at which alive, if not nil, is 0: the gateway was not counting then. A value that was high from the
// first point on is not a rise.
func findRise(times []time.Time, end time.Time, values, alive []float64) (rise, bool) {
	n := min(len(times), len(values))
	points := make([]int, 0, n)     // indices in values of the points that count
	sums := make([]float64, 1, n+1) // sums of the points before each
	var squares float64
	for i := range n {
		if !isNumber(values[i]) || i < len(alive) && alive[i] == 0 {
			continue
		}
		points = append(points, i)
		sums = append(sums, sums[len(sums)-1]+values[i])
		squares += values[i] * values[i]
	}
	n = len(points)
	if n < risePoints {
		return rise{}, false
	}
	all := sums[n]
	mean := all / float64(n)
	variance := squares - all*mean
	best, from, to := 0.0, 0, 0
	for i := range n {
		for j := i + riseLength; j <= n; j++ {
			k := float64(j - i)
			over := sums[j] - sums[i] - k*mean
			if over <= 0 || j-i == n {
				continue
			}
			if explained := over * over * float64(n) / (k * (float64(n) - k)); explained > best {
				best, from, to = explained, i, j
			}
		}
	}
	if best < riseExplains*variance || best == 0 || from < max(riseLength, n/riseBefore) {
		return rise{}, false
	}
	inside := sums[to] - sums[from]
	r := rise{first: points[from], past: points[to-1] + 1, From: times[points[from]], To: end}
	r.Inside, r.Outside = inside/float64(to-from), max(all-inside, 0)/float64(n-to+from)
	if r.past < len(times) {
		r.To = times[r.past]
	}
	if r.Lasts = to == n || end.Sub(r.To) <= riseLate; r.Lasts {
		r.To = end
	}
	return r, r.Inside >= riseTimes*r.Outside
}

// Times formats the factor of the rise, or returns "" if there was nothing before.
func (r *rise) Times() string { return timesText(r.Inside, r.Outside) }

// timesText formats the factor between two values.
func timesText(now, before float64) string {
	if !(before > 0) || math.IsInf(now/before, 0) || now/before > 1e4 {
		return ""
	}
	if v := now / before; v < 9.95 {
		return "× " + trim(strconv.FormatFloat(v, 'f', 1, 64))
	}
	return "× " + short(math.Round(now/before))
}

// When formats the start of the rise, or start and end, with the precision that suits the range.
func (r *rise) When(looked time.Duration) string {
	if r.Lasts {
		return "since " + clock(r.From, looked)
	}
	return clock(r.From, looked) + " – " + clock(r.To, looked)
}

// means returns the averages of another series of the statement within the rise and outside of it.
func (r *rise) means(values []float64) (inside, outside float64) {
	var n, m float64
	for i, v := range values {
		switch {
		case !isNumber(v):
		case i >= r.first && i < r.past:
			inside, n = inside+v, n+1
		default:
			outside, m = outside+v, m+1
		}
	}
	return inside / max(n, 1), outside / max(m, 1)
}
