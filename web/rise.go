package web

import (
	"math"
	"strconv"
	"time"
)

// A rise is a stretch of time in which something was higher than in the rest of what was looked at: since
// when a statement hurts.
type rise struct {
	From, To        time.Time
	Lasts           bool    // to the end of what was looked at
	Inside, Outside float64 // on average
	first, past     int     // its points: [first, past)
}

const (
	// riseTimes is how many times higher it has to be, and riseExplains which part of the whole variance
	// the stretch explains: of noise, and of what comes and goes, no one stretch explains half.
	riseTimes    = 2
	riseExplains = 0.5

	// risePoints is how few points tell nothing, riseLength how short a stretch may be in points, and
	// riseBefore the part of all points that has to lie before it: clients that begin are no rise.
	risePoints = 12
	riseLength = 2
	riseBefore = 8

	// riseLate is how much may be missing at the end of what lasts: what was called last may not be
	// sampled yet.
	riseLate = time.Minute
)

// findRise looks for a rise in points that begin at times, the last of which ends at end. Points of
// which alive, if there is any, says 0 are left out: nobody was there to count. What was high from the
// first point on is no rise.
func findRise(times []time.Time, end time.Time, values, alive []float64) (rise, bool) {
	n := min(len(times), len(values))
	points := make([]int, 0, n)     // that count, by their place in values
	sums := make([]float64, 1, n+1) // of the points before each
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

// Times says how many times higher it was, "" where there was nothing before.
func (r *rise) Times() string { return timesText(r.Inside, r.Outside) }

// timesText compares two figures.
func timesText(now, before float64) string {
	if !(before > 0) || math.IsInf(now/before, 0) || now/before > 1e4 {
		return ""
	}
	if v := now / before; v < 9.95 {
		return "× " + trim(strconv.FormatFloat(v, 'f', 1, 64))
	}
	return "× " + short(math.Round(now/before))
}

// When says since when, or from when to when, as short as a look at so much time allows.
func (r *rise) When(looked time.Duration) string {
	if r.Lasts {
		return "since " + clock(r.From, looked)
	}
	return clock(r.From, looked) + " – " + clock(r.To, looked)
}

// means are the average of the rise's points and of all others, alike for a statement's other figures.
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
