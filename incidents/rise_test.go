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
