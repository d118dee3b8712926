package incidents

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testseed"
)

// loads returns n points of a load with noise: low, but high within [from, to).
func loads(r *rand.Rand, n, from, to int, low, high, noise float64) []float64 {
	values := make([]float64, n)
	for i := range values {
		v := low
		if i >= from && i < to {
			v = high
		}
		values[i] = max(0, v*(1+noise*r.NormFloat64()))
	}
	return values
}

func minutes(n int) (times []time.Time, end time.Time) {
	start := time.Date(2026, 1, 31, 2, 0, 0, 0, time.UTC)
	for i := range n {
		times = append(times, start.Add(time.Duration(i)*time.Minute))
	}
	return times, start.Add(time.Duration(n) * time.Minute)
}

// TestRise finds the start of a rise in noise, and none if there is none.
func TestRise(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	times, end := minutes(120)
	for _, c := range []struct {
		name     string
		values   []float64
		from, to int // -1: no rise
	}{
		{"a step up that lasts", loads(r, 120, 73, 120, 0.1, 0.5, 0.3), 73, 120},
		{"an hour that is over", loads(r, 120, 30, 90, 0.1, 0.5, 0.3), 30, 90},
		{"from nothing", loads(r, 120, 100, 120, 0, 0.5, 0.3), 100, 120},
		{"the last point is not there yet", loads(r, 120, 100, 119, 0.1, 0.5, 0.1), 100, 120},
		{"three minutes", loads(r, 120, 117, 120, 0.1, 2, 0.3), 117, 120},
		{"one point", loads(r, 120, 80, 81, 0.1, 3, 0), -1, 0},
		{"clients that begin", loads(r, 120, 10, 120, 0.01, 0.5, 0.3), -1, 0},
		{"noise alone", loads(r, 120, 0, 0, 0.1, 0, 0.5), -1, 0},
		{"a little more", loads(r, 120, 60, 120, 0.1, 0.15, 0.1), -1, 0},
		{"a step down", loads(r, 120, 0, 60, 0, 0.5, 0.1), -1, 0},
		{"nothing", make([]float64, 120), -1, 0},
		{"always the same", loads(r, 120, 0, 120, 0, 1, 0), -1, 0},
		{"few points", loads(r, 11, 8, 11, 0.1, 5, 0.1), -1, 0},
		{"none", nil, -1, 0},
	} {
		got, ok := FindRise(Series{Times: times, End: end, Values: c.values, Step: time.Minute})
		if ok != (c.from >= 0) {
			t.Errorf("%s: %+v, %v", c.name, got, ok)
		}
		if !ok || c.from < 0 {
			continue
		}
		want := end
		if c.to < len(times) {
			want = times[c.to]
		}
		if !got.From.Equal(times[c.from]) || !got.To.Equal(want) || got.Lasts != (c.to == 120) || got.Inside < 0.4 {
			t.Errorf("%s: %+v, want points %d to %d", c.name, got, c.from, c.to)
		}
	}
	every := make([]float64, 120) // periodic load every ten minutes is not a rise
	for i := range every {
		every[i] = 0.01
		if i%10 == 0 {
			every[i] = 3
		}
	}
	if got, ok := FindRise(Series{Times: times, End: end, Values: every, Step: time.Minute}); ok {
		t.Errorf("every ten minutes: %+v", got)
	}
}

// TestRiseWithoutCounts expects the time before the gateway started not to count as time without load.
func TestRiseWithoutCounts(t *testing.T) {
	times, end := minutes(60)
	values, alive := make([]float64, 60), make([]float64, 60)
	for i := 20; i < 60; i++ {
		values[i], alive[i] = 1, 500
	}
	if got, ok := FindRise(Series{Times: times, End: end, Values: values, Alive: alive, Step: time.Minute}); ok {
		t.Errorf("a load that was there from the start: %+v", got)
	}
	for i := 50; i < 60; i++ {
		values[i] = 4
	}
	values[55] = math.NaN()
	if got, ok := FindRise(Series{Times: times, End: end, Values: values, Alive: alive, Step: time.Minute}); !ok || !got.From.Equal(times[50]) {
		t.Errorf("%+v, %v", got, ok)
	}
}

// TestOnset expects the bounds of the onset to contain the time of a step that is within a point, for each fraction of
// the point, with noise, and to be narrower than two points.
func TestOnset(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	times, end := minutes(60)
	for _, noise := range []float64{0, 0.05, 0.2} {
		outside := 0
		const rounds = 400
		for round := range rounds {
			part := float64(round) / rounds
			at := times[40].Add(time.Duration(part * float64(time.Minute)))
			values := loads(r, 60, 41, 60, 0.1, 1, noise)
			values[40] = (part*0.1 + (1 - part)) * (1 + noise*r.NormFloat64())
			got, ok := FindRise(Series{Times: times, End: end, Values: values, Step: time.Minute, Interval: 15 * time.Second})
			if !ok {
				t.Fatalf("noise %v, %v: no rise", noise, part)
			}
			if got.Latest.After(got.Earliest.Add(2*time.Minute + 40*time.Second)) {
				t.Errorf("noise %v: from %v to %v", noise, got.Earliest, got.Latest)
			}
			if at.Before(got.Earliest) || at.After(got.Latest) {
				outside++
			}
		}
		if outside > rounds/20 {
			t.Errorf("noise %v: %d of %d onsets are outside of their bounds", noise, outside, rounds)
		}
	}
}

// TestFirstCall expects the time before the first call of a statement not to be one of a lower load.
func TestFirstCall(t *testing.T) {
	times, end := minutes(60)
	values := make([]float64, 60)
	for i := 30; i < 60; i++ {
		values[i] = 1
	}
	s := Series{Times: times, End: end, Values: values, Step: time.Minute, Known: times[30]}
	if got, ok := FindRise(s); ok {
		t.Errorf("a new statement: %+v", got)
	}
	for i := 50; i < 60; i++ {
		values[i] = 5
	}
	if got, ok := FindRise(s); !ok || !got.From.Equal(times[50]) {
		t.Errorf("a new statement that became heavier: %+v, %v", got, ok)
	}
}

// TestRiseBeyondNoise draws loads of an application on a machine that is slower for one to four minutes, and a rise of one
// statement. Without the rise there is none; with it, it is found at its onset, wherever the noise is. A slowdown of more
// than noiseLength is a rise, as are more calls of all.
func TestRiseBeyondNoise(t *testing.T) {
	rng := testseed.Rand(t)
	start := time.Unix(1e9, 0)
	const n, step = 120, 30 * time.Second
	var falsely, found, missed, lasting, traffic int
	for range 200 {
		s := Series{Step: step, Interval: 15 * time.Second, End: start.Add(n * step), Values: make([]float64, n)}
		others := make([][]float64, 3+rng.IntN(10))
		calls := make([]float64, n)
		machine := make([]float64, n)
		first, length, times := 20+rng.IntN(80), 2+rng.IntN(7), 2+3*rng.Float64()
		draw := func() {
			s.Times = s.Times[:0]
			for i := range n {
				machine[i], calls[i] = 1, 100*(0.9+0.2*rng.Float64())
				if i >= first && i < first+length {
					machine[i] = times
				}
				s.Times = append(s.Times, start.Add(time.Duration(i)*step))
				s.Values[i] = 0.3 * machine[i] * math.Exp(0.15*rng.NormFloat64())
			}
			for k := range others {
				others[k] = make([]float64, n)
				for i := range n {
					others[k][i] = 0.1 * machine[i] * math.Exp(0.25*rng.NormFloat64())
				}
			}
		}
		draw()
		if _, ok := FindRiseBeyond(s, others, calls); ok {
			falsely++
		}
		onset := 30 + rng.IntN(60)
		own := Series{Times: s.Times, End: s.End, Step: step, Interval: s.Interval, Values: slices.Clone(s.Values)}
		for i := onset; i < n; i++ {
			own.Values[i] *= 8
		}
		if r, ok := FindRiseBeyond(own, others, calls); !ok {
			missed++
		} else if at := own.Times[onset]; !r.At.Before(at.Add(-2*step)) && !r.At.After(at.Add(2*step)) {
			found++
		}
		length, first = 12+rng.IntN(20), 20+rng.IntN(60)
		draw()
		if _, ok := FindRiseBeyond(s, others, calls); ok {
			lasting++
		}
		length = 2 + rng.IntN(7)
		draw()
		for i := first; i < first+length; i++ {
			calls[i] *= 3
		}
		if _, ok := FindRiseBeyond(s, others, calls); ok {
			traffic++
		}
	}
	t.Logf("of 200: %d false rises, %d found at the onset, %d missed, %d lasting slowdowns, %d times of more calls", falsely, found, missed, lasting, traffic)
	if falsely > 4 || found < 160 || missed > 8 || lasting < 170 || traffic < 150 {
		t.Error("want no false rise, and the others found")
	}
}

// TestRiseEdges has the bounds of a rise: its length, the time before it, its height and its end.
func TestRiseEdges(t *testing.T) {
	of := func(n int, low, high float64, from, to int) Series {
		s := Series{Step: time.Minute, Interval: 10 * time.Second}
		s.Times, s.End = minutes(n)
		for i := range n {
			v := low
			if i >= from && i < to {
				v = high
			}
			s.Values = append(s.Values, v)
		}
		return s
	}
	for name, c := range map[string]struct {
		s        Series
		from, to int // -1: no rise
		lasts    bool
	}{
		"twelve points":           {of(12, 1, 4, 8, 12), 8, 12, true},
		"eleven points":           {of(11, 1, 4, 7, 11), -1, 0, false},
		"two points":              {of(40, 1, 9, 20, 22), 20, 22, false},
		"one point":               {of(40, 1, 9, 20, 21), -1, 0, false},
		"an eighth before":        {of(80, 1, 9, 10, 80), 10, 80, true},
		"less":                    {of(80, 1, 9, 9, 80), -1, 0, false},
		"two points before":       {of(12, 1, 9, 2, 12), 2, 12, true},
		"one point before":        {of(12, 1, 9, 1, 12), -1, 0, false},
		"twice as high":           {of(40, 1, 2, 20, 30), 20, 30, false},
		"less high":               {of(40, 1, 1.99, 20, 30), -1, 0, false},
		"a minute is not sampled": {of(40, 1, 9, 20, 39), 20, 40, true},
		"two minutes are not":     {of(40, 1, 9, 20, 38), 20, 38, false},
		"from nothing":            {of(40, 0, 1, 20, 30), 20, 30, false},
	} {
		got, ok := FindRise(c.s)
		if ok != (c.from >= 0) {
			t.Errorf("%s: %+v, %v", name, got, ok)
			continue
		}
		if !ok {
			continue
		}
		to := c.s.End
		if c.to < len(c.s.Times) {
			to = c.s.Times[c.to]
		}
		if got.First != c.from || !got.From.Equal(c.s.Times[c.from]) || !got.To.Equal(to) || got.Lasts != c.lasts || got.Inside != c.s.Values[c.from] || math.Abs(got.Outside-c.s.Values[0]) > 1e-9 {
			t.Errorf("%s: %+v", name, got)
		}
		slack := clocks + c.s.Interval
		if c.to-c.from < 4 { // of a few points the level is not known
			slack += c.s.Step
		}
		if at := c.s.Times[c.from]; !got.At.Equal(at) || !got.Earliest.Equal(at.Add(-slack)) || !got.Latest.Equal(at.Add(slack)) {
			t.Errorf("%s: the onset is %+v", name, got.Onset)
		}
	}
	s := of(40, 1, 9, 20, 30)
	for i, v := range map[int]float64{3: math.NaN(), 5: math.Inf(1), 7: math.Inf(-1)} {
		s.Values[i] = v
	}
	s.Values = s.Values[:38] // the values of the last points are not known yet
	if got, ok := FindRise(s); !ok || got.First != 20 || got.Past != 30 || got.Outside != 1 {
		t.Errorf("values that are none: %+v, %v", got, ok)
	}
	s = of(40, 0, 9, 20, 30)
	s.Known = s.Times[14].Add(1)
	for i := range 14 {
		s.Values[i] = 100 // before the first call
	}
	if got, ok := FindRise(s); !ok || got.First != 20 {
		t.Errorf("values before the first call count: %+v, %v", got, ok)
	}
	r := Rise{First: 2, Past: 4}
	for name, c := range map[string]struct {
		values          []float64
		inside, outside float64
	}{
		"whole":  {[]float64{1, 3, 8, 10, 2}, 9, 2},
		"gaps":   {[]float64{1, math.NaN(), 8, math.Inf(1), 3}, 8, 2},
		"none":   {nil, 0, 0},
		"inside": {[]float64{math.NaN(), math.NaN(), 8, 10, math.Inf(-1)}, 9, 0},
	} {
		if inside, outside := r.Means(c.values); inside != c.inside || outside != c.outside {
			t.Errorf("%s: %v and %v", name, inside, outside)
		}
	}
}

// TestNoise has the bounds of the machine's noise.
func TestNoise(t *testing.T) {
	rise := func(minutes int, inside, outside float64) *Rise {
		return &Rise{From: noon, To: noon.Add(time.Duration(minutes) * time.Minute), Inside: inside, Outside: outside, First: 2, Past: 4}
	}
	load := func(factor float64) []float64 { return []float64{1, 1, factor, factor, 1} }
	others := func(factors ...float64) (all [][]float64) {
		for _, f := range factors {
			all = append(all, load(f))
		}
		return all
	}
	for name, c := range map[string]struct {
		r      *Rise
		others [][]float64
		calls  []float64
		want   bool
	}{
		"noise":             {rise(4, 5.9, 1), others(3, 3, 3), load(1), true},
		"five minutes":      {rise(5, 5.9, 1), others(3, 3, 3), load(1), false},
		"traffic":           {rise(4, 5.9, 1), others(3, 3, 3), load(2), false},
		"a little traffic":  {rise(4, 5.9, 1), others(3, 3, 3), load(1.9), true},
		"calls are unknown": {rise(4, 5.9, 1), others(3, 3, 3), nil, true},
		"two others":        {rise(4, 5.9, 1), others(3, 3), load(1), false},
		"others as before":  {rise(4, 1.9, 1), others(1, 1, 1), load(1), false},
		"ten times":         {rise(4, 5.9, 1), others(10, 10, 10), load(1), false},
		"less than ten":     {rise(4, 5.9, 1), others(9.9, 9.9, 9.9), load(1), true},
		"twice the others":  {rise(4, 6, 1), others(3, 3, 3), load(1), false},
		"the median":        {rise(4, 5.9, 1), others(3, 1, 9), load(1), true},
		"others of no load": {rise(4, 5.9, 1), append(others(3, 3), []float64{0, 0, 5, 5, 0}), load(1), false},
	} {
		if got := c.r.isNoise(c.others, c.calls); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
