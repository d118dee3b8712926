package activeseries

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testwait"
)

func newTracker(t testing.TB, o TrackerOptions) *Tracker {
	t.Helper()
	tr, err := NewTracker(time.Unix(1_700_000_000, 0), o)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestTrackerModel performs random operations on a Tracker and on maps, and compares them.
func TestTrackerModel(t *testing.T) {
	type series struct {
		last     Moment
		matchers []uint16
	}
	for seed := range uint64(10) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		const matchers = 5
		tr := newTracker(t, TrackerOptions{Idle: 10 * time.Minute, Step: time.Minute, Matchers: matchers, Stripes: 1 << rnd.IntN(4)})
		live := map[Key]series{} // series that were not swept
		now := Moment(1)
		keys := 1 << (3 + rnd.IntN(9))
		for range 20_000 {
			k := Key(rnd.IntN(keys))
			if rnd.IntN(2) == 0 {
				k <<= 40 // keys that differ in other bits
			}
			was, known := live[k]
			switch rnd.IntN(40) {
			case 0:
				now += Moment(rnd.IntN(8))
			case 1:
				tr.Sweep(now)
				for k, s := range live {
					if now > s.last+10 {
						delete(live, k)
					}
				}
				want := make([]int64, matchers)
				for _, s := range live {
					for _, m := range s.matchers {
						want[m]++
					}
				}
				got := make([]int64, matchers)
				if n := tr.Counts(got); n != int64(len(live)) || !slices.Equal(got, want) {
					t.Fatalf("seed %d: %d series are live, %v of the matchers, want %d, %v", seed, n, got, len(live), want)
				}
			case 2:
				if got, want := tr.IsActive(k, now), known && now <= was.last+10; got != want {
					t.Fatalf("seed %d: series %d is live at %d: %t, want %t", seed, k, now, got, want)
				}
			default:
				at := now - min(now-1, Moment(rnd.IntN(3))) // samples may be late
				if got := tr.Update(k, at); got != known {
					t.Fatalf("seed %d: Update knows series %d: %t, want %t", seed, k, got, known)
				}
				if !known {
					for m := range uint16(matchers) {
						if rnd.IntN(3) == 0 {
							was.matchers = append(was.matchers, m)
						}
					}
				}
				if !known || rnd.IntN(10) == 0 {
					if err := tr.Add(k, at, was.matchers); err != nil {
						t.Fatal(err)
					}
				}
				was.last = max(was.last, at)
				live[k] = was
			}
		}
	}
}

// TestTrackerTime expects a series to live for its idle time and up to a step longer.
func TestTrackerTime(t *testing.T) {
	origin := time.Unix(1_700_000_000, 0)
	tr, err := NewTracker(origin, TrackerOptions{Idle: 20 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	sample := origin.Add(90 * time.Second)
	if err := tr.Add(1, tr.Moment(sample), nil); err != nil {
		t.Fatal(err)
	}
	for after, want := range map[time.Duration]bool{0: true, 20 * time.Minute: true, 21 * time.Minute: false} {
		if got := tr.IsActive(1, tr.Moment(sample.Add(after))); got != want {
			t.Errorf("live %v after its sample: %t, want %t", after, got, want)
		}
	}
	if m := tr.Moment(origin.Add(-time.Hour)); m != 1 {
		t.Errorf("before the origin it is %d, want 1", m)
	}
}

// TestTrackerConcurrent updates, adds and sweeps concurrently, with many rebuilds. A series with a steady
// flow of samples must never be lost.
func TestTrackerConcurrent(t *testing.T) {
	tr := newTracker(t, TrackerOptions{Idle: 2 * time.Second, Step: time.Second, Matchers: 1, Stripes: 2})
	const workers, steady = 4, 300
	passing := int64(3000)
	if testing.Short() {
		passing = 500
	}
	var wg sync.WaitGroup
	var turn sync.WaitGroup
	for at := Moment(1); at < 30; at++ {
		turn.Add(workers)
		for w := range workers {
			wg.Go(func() {
				defer turn.Done()
				for i := range steady {
					k := Key(i*workers + w)
					if !tr.Update(k, at) {
						if at > 1 {
							t.Errorf("steady series %d is not known at %d", k, at)
						}
						if err := tr.Add(k, at, []uint16{0}); err != nil {
							t.Error(err)
						}
					}
				}
				for i := range passing { // several workers add the same ones
					if k := Key(1<<32 + int64(at)*passing + i); !tr.Update(k, at) {
						if err := tr.Add(k, at, nil); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		wg.Go(func() { tr.Sweep(at) })
		testwait.Group(t, "this second's writers", &turn)
	}
	testwait.Group(t, "the sweeps", &wg)
	tr.Sweep(29)
	counts := make([]int64, 1)
	if all := tr.Counts(counts); all != steady*workers+3*passing || counts[0] != steady*workers {
		t.Errorf("%d series are live, %d steady ones, want %d and %d", all, counts[0], steady*workers+3*passing, steady*workers)
	}
}

// TestTrackerBytes compares the reported size of a Tracker with the growth of the heap. Other goroutines
// allocate too, so it tries several times.
func TestTrackerBytes(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const attempts = 10
	for _, n := range []int{0, 1000, 60_000, 100_000} {
		var off int64
		for range attempts {
			tr := newTracker(t, TrackerOptions{Idle: time.Hour, Matchers: 100})
			tr.Bytes() // initializes the size classes
			runtime.KeepAlive(tr)
			before := heap()
			tr = newTracker(t, TrackerOptions{Idle: time.Hour, Matchers: 100})
			rnd := rand.New(rand.NewPCG(1, 2))
			for i := range n {
				if err := tr.Add(Key(rnd.Uint64()), 1, []uint16{uint16(i % 50), uint16(50 + i%7)}); err != nil {
					t.Fatal(err)
				}
			}
			grown, says := heap()-before, tr.Bytes()
			runtime.KeepAlive(tr)
			off = grown - says
			if each := float64(says) / float64(n); n >= 60_000 && (each < 18 || each > 33) {
				t.Fatalf("%d series take %.1f bytes each", n, each)
			}
			if off >= -2048 && off <= 2048 {
				break
			}
		}
		if off < -2048 || off > 2048 {
			t.Errorf("%d series: in %d attempts the heap never grew by what Bytes says; the last time by %d more", n, attempts, off)
		}
	}
}

// TestTrackerShrinks expects memory to be freed after most series have ended.
func TestTrackerShrinks(t *testing.T) {
	tr := newTracker(t, TrackerOptions{Idle: time.Minute, Step: time.Minute, Stripes: 4})
	for i := range 50_000 {
		if err := tr.Add(Key(i), 1+Moment(i%10/9*5), nil); err != nil {
			t.Fatal(err)
		}
	}
	before := tr.Bytes()
	tr.Sweep(5)
	if n, after := tr.Counts(nil), tr.Bytes(); n != 5000 || after > before/5 {
		t.Errorf("%d series take %d bytes, 50,000 took %d", n, after, before)
	}
}

func TestTrackerRefuses(t *testing.T) {
	for _, o := range []TrackerOptions{
		{},
		{Idle: -1},
		{Idle: time.Minute, Step: time.Hour},
		{Idle: time.Minute, Step: 7 * time.Second},
		{Idle: 1, Matchers: -1},
		{Idle: 1, Matchers: 1 << 16},
		{Idle: 1, Stripes: 3},
		{Idle: 1, Stripes: -4},
	} {
		if _, err := NewTracker(time.Time{}, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	tr := newTracker(t, TrackerOptions{Idle: 1, Matchers: 1000})
	for i := range 1<<16 - 1 {
		if err := tr.Add(Key(i), 1, []uint16{uint16(i / 256), uint16(300 + i%256)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tr.Add(1<<40, 1, nil); !errors.Is(err, errMatcherSets) {
		t.Errorf("one combination too many: %v", err)
	}
}
