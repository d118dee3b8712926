package incidents

import (
	"math"
	"slices"
	"time"
)

// A Series is the load of a statement over time.
type Series struct {
	Times    []time.Time // start of each point
	End      time.Time   // of the last point
	Values   []float64
	Alive    []float64     // 0: the gateway did not count in that point; nil: it always did
	Known    time.Time     // first call; earlier points do not count; zero: unknown
	Step     time.Duration // between two points
	Interval time.Duration // between two samples
}

// An Onset is the time of a step in the data, and its bounds.
type Onset struct {
	At, Earliest, Latest time.Time
}

// A Rise is an interval in which a value was higher than in the rest of the range, such as the load of a
// statement that became heavier.
type Rise struct {
	Onset

	From, To        time.Time // points
	Lasts           bool      // until the end of the range
	Inside, Outside float64   // averages
	First, Past     int       // its points: [First, Past)
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

// FindRise searches for a rise. A value that was high from the first point on is not a rise.
func FindRise(s Series) (Rise, bool) {
	n := min(len(s.Times), len(s.Values))
	points := make([]int, 0, n)     // indices in values of the points that count
	sums := make([]float64, 1, n+1) // sums of the points before each
	var squares float64
	for i := range n {
		v := s.Values[i]
		if math.IsNaN(v) || math.IsInf(v, 0) || i < len(s.Alive) && s.Alive[i] == 0 || s.Times[i].Add(s.Step).Before(s.Known) {
			continue
		}
		points = append(points, i)
		sums = append(sums, sums[len(sums)-1]+v)
		squares += v * v
	}
	n = len(points)
	if n < risePoints {
		return Rise{}, false
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
		return Rise{}, false
	}
	inside := sums[to] - sums[from]
	r := Rise{First: points[from], Past: points[to-1] + 1, From: s.Times[points[from]], To: s.End}
	r.Inside, r.Outside = inside/float64(to-from), max(all-inside, 0)/float64(n-to+from)
	if r.Past < len(s.Times) {
		r.To = s.Times[r.Past]
	}
	if r.Lasts = to == n || s.End.Sub(r.To) <= riseLate; r.Lasts {
		r.To = s.End
	}
	higher := 0 // points of the rise that are high themselves: one high point is not a rise
	for _, p := range points[from:to] {
		if s.Values[p] >= riseTimes*r.Outside {
			higher++
		}
	}
	if 2*higher <= to-from {
		return Rise{}, false
	}
	r.Onset = s.onset(&r, points, from, to)
	return r, r.Inside >= riseTimes*r.Outside
}

// onsetPoints is the number of points after the onset whose average is the level that the load stepped up to.
const onsetPoints = 5

// onset estimates when the load stepped up. The point before the rise, or its first one, may include a part of it: the
// part is the fraction of the step that the point has reached. The bounds are the time between two samples, and the
// noise of the level as a fraction of a point. points[from:to] are the points of the rise.
func (s *Series) onset(r *Rise, points []int, from, to int) Onset {
	var low, high, squares float64
	count := func(all []int) (mean float64) {
		for _, p := range all {
			mean += s.Values[p]
		}
		return mean / float64(max(len(all), 1))
	}
	before := points[max(from-1-onsetPoints, 0) : from-1]
	after := points[min(from+1, to-1):min(from+1+onsetPoints, to)]
	low, high = count(before), count(after)
	step := high - low
	at := r.From
	noise := 1.0
	if step > 0 {
		if len(after) > 2 {
			for _, p := range after {
				squares += (s.Values[p] - high) * (s.Values[p] - high)
			}
			noise = min(math.Sqrt(squares/float64(len(after)))/step, 1)
		}
		part := func(p int) float64 { return min(max((s.Values[p]-low)/step, 0), 1) }
		reached := part(points[from-1]) + part(points[from])
		at = s.Times[points[from]].Add(time.Duration((1 - reached) * float64(s.Step)))
	}
	slack := clocks + s.Interval + time.Duration(noise*float64(s.Step))
	return Onset{At: at, Earliest: at.Add(-slack), Latest: at.Add(slack)}
}

// Means returns the averages of another series of the statement within the rise and outside of it.
func (r *Rise) Means(values []float64) (inside, outside float64) {
	var n, m float64
	for i, v := range values {
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
		case i >= r.First && i < r.Past:
			inside, n = inside+v, n+1
		default:
			outside, m = outside+v, m+1
		}
	}
	return inside / max(n, 1), outside / max(m, 1)
}

const (
	// noiseLength is the length from which a slowdown of all statements is an incident of the server, and noiseTimes the
	// factor from which it is one at once. Shorter and lower ones are noise of the machine.
	noiseLength = 5 * time.Minute
	noiseTimes  = 10

	// maxNoise is the maximum number of times of noise in a range.
	maxNoise = 4

	// noiseOthers is the minimum number of other statements that show what is common to all.
	noiseOthers = 3
)

// FindRiseBeyond is FindRise for the load of a statement, without noise of the machine: a short rise that is no more than what
// the other statements have in common, although there are not more calls, is searched beyond. others are the loads of the
// other statements, and calls the calls of all, at the same points.
func FindRiseBeyond(s Series, others [][]float64, calls []float64) (Rise, bool) {
	r, ok := FindRise(s)
	for range maxNoise {
		if !ok || !r.isNoise(others, calls) {
			return r, ok
		}
		common := r.common(others)
		s.Values = slices.Clone(s.Values)
		for i := r.First; i < r.Past; i++ {
			s.Values[i] /= common
		}
		r, ok = FindRise(s)
	}
	return Rise{}, false
}

// isNoise reports whether a rise is noise of the machine.
func (r *Rise) isNoise(others [][]float64, calls []float64) bool {
	if r.To.Sub(r.From) >= noiseLength {
		return false
	}
	if inside, outside := r.Means(calls); outside > 0 && inside >= riseTimes*outside {
		return false // traffic
	}
	common := r.common(others)
	return common > 1 && common < noiseTimes && r.Inside < riseTimes*common*r.Outside
}

// common returns the median of the factors by which the loads of other statements changed within the rise; 1 if there are
// too few.
func (r *Rise) common(others [][]float64) float64 {
	var factors []float64
	for _, values := range others {
		if inside, outside := r.Means(values); outside > 0 {
			factors = append(factors, inside/outside)
		}
	}
	if len(factors) < noiseOthers {
		return 1
	}
	slices.Sort(factors)
	return factors[len(factors)/2]
}
