package statements_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/querylog"
)

// A flight is a statement of the test, from its start to its end.
type flight struct {
	key        int // of keyOf; negative: the statement has no digest
	start, end time.Time
	record     *querylog.Record
}

// flights are statements, those in flight and finished ones.
type flights struct {
	rig *rig

	mu      sync.Mutex
	running []*flight // guarded by mu
	all     []*flight
}

// advance is called before each round, as by a gateway.
func (fs *flights) advance() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.running {
		fs.rig.table.Advance(f.record, min(time.Since(f.start), f.end.Sub(f.start)), f.key < 0) // it may be finished only later
	}
}

// launch starts a statement.
func (fs *flights) launch(key int, took time.Duration) {
	f := &flight{key: key, start: time.Now(), end: time.Now().Add(took)}
	f.record = &querylog.Record{Start: f.start, Schema: "shop", User: "app", Backend: "db1"}
	if key >= 0 {
		k := keyOf(key)
		f.record.Digest, f.record.User, f.record.Normalized = k.Digest, k.User, []byte("SELECT x")
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.running, fs.all = append(fs.running, f), append(fs.all, f)
}

// land finishes the statements whose time has come, and returns the number of those still in flight.
func (fs *flights) land() int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.running = slices.DeleteFunc(fs.running, func(f *flight) bool {
		if time.Now().Before(f.end) {
			return false
		}
		f.record.Total = f.end.Sub(f.start)
		fs.rig.table.Observe(f.record)
		return true
	})
	return len(fs.running)
}

// of returns the seconds of a key's statements up to a time, of all keys if every is set; and the number of statements that
// are in flight within a margin of the time.
func (fs *flights) of(key int, every bool, until time.Time, margin time.Duration) (seconds, near float64) {
	for _, f := range fs.all {
		if f.key != key && !every || f.start.After(until.Add(margin)) {
			continue
		}
		end := f.end
		if end.After(until.Add(-margin)) {
			near++
		}
		if end.After(until) {
			end = until
		}
		seconds += max(end.Sub(f.start).Seconds(), 0)
	}
	return seconds, near
}

// checkCurve compares the load up to the end of each point with the true one: it has counted the time that had passed,
// within a margin for each statement in flight. A statement in flight anywhere in the range has a row.
func (fs *flights) checkCurve(from, to time.Time, points int, margin time.Duration, source string) {
	t := fs.rig.t
	t.Helper()
	top, err := fs.rig.reader.Top(t.Context(), statements.TopQuery{From: from, To: to, Points: points, Limit: statements.MaxTopLimit})
	fs.rig.must(err)
	if top.Source != source {
		t.Errorf("from %v to %v: the source is %s", from, to, top.Source)
	}
	compare := func(of string, key int, load []float64) {
		lengths, sum := pointLengths(&top.Series), 0.0
		base, nearBase := fs.of(key, of == "all", top.Series.Times[0], margin)
		for i, p := range load {
			end := top.Series.Times[i].Add(time.Duration(lengths[i] * float64(time.Second)))
			sum += p * lengths[i]
			want, near := fs.of(key, of == "all", end, margin)
			if math.Abs(sum-(want-base)) > (near+nearBase)*margin.Seconds()+1e-6 {
				t.Errorf("%s, %s %d, from %v up to %v: %v s, want %v within %v", source, of, key, from, end, sum, want-base, (near+nearBase)*margin.Seconds())
				return
			}
		}
	}
	if len(top.Notes) == 0 && len(top.Series.Times) > 0 { // the sums of all statements start with the process
		compare("all", 0, top.Series.Load)
	}
	rows := make(map[int]bool)
	for _, row := range top.Rows {
		key := keyOfDigest(row.Digest)
		rows[key] = true
		if len(row.Points) > 0 {
			compare("key", key, row.Points)
		}
		if row.Text != "SELECT x" || row.New != (!row.First.IsZero() && !row.First.Before(top.From)) {
			t.Errorf("the row of %d is %+v", key, row)
		}
	}
	for _, f := range fs.all {
		if f.key >= 0 && !rows[f.key] && f.start.Before(top.To.Add(-margin)) && f.end.After(top.From.Add(margin)) {
			t.Errorf("%s, from %v to %v: no row of %d, in flight from %v to %v", source, top.From, top.To, f.key, f.start, f.end)
		}
	}
}

// TestFirstCallInFlight checks that a first call has a load of 1 from its start on, in points shorter than an interval.
func TestFirstCallInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 100)
		r.options.Interval = 10 * time.Second
		fs := &flights{rig: r}
		r.options.Advance = fs.advance
		r.call(9, time.Millisecond, false)
		r.start()
		time.Sleep(63 * time.Second)
		began := time.Now()
		fs.launch(1, time.Hour)
		time.Sleep(2 * time.Minute)
		top, err := r.reader.Top(t.Context(), statements.TopQuery{From: began.Add(-30 * time.Second), To: began.Add(time.Minute), Points: 90})
		r.must(err)
		if len(top.Rows) != 1 || top.Rows[0].Calls != 0 || len(top.Rows[0].Points) < 5 {
			t.Fatalf("the rows are %+v", top.Rows)
		}
		for i, p := range top.Rows[0].Points {
			begin, end := top.Series.Times[i], top.Series.Times[i].Add(top.Series.Step)
			if end.After(began.Add(50 * time.Second)) {
				break // the samples of its end are in the next interval
			}
			flown, _ := fs.of(1, false, end, 0)
			before, _ := fs.of(1, false, begin, 0)
			if want := (flown - before) / top.Series.Step.Seconds(); math.Abs(p-want) > 0.01 {
				t.Errorf("a load of %v %v after the start, want %v", p, begin.Sub(began), want)
			}
		}
		r.stop()
	})
}

// TestLoadAsTimePasses has sessions execute statements of 0.1 to 4,000 s: known ones, ones that are called for the first time,
// and ones without a digest; and two statements that take hours. It compares the load of each statement with the true curve,
// from samples and from rollups, while statements are in flight, over restarts. When all have finished, the totals are exact.
func TestLoadAsTimePasses(t *testing.T) {
	random := rand.New(rand.NewPCG(testseed.New(t), 1))
	synctest.Test(t, func(t *testing.T) {
		const sessions, known, interval = 8, 3, 30 * time.Second
		margin := 2*interval + 2*time.Second // a spread round takes up to one interval more
		r := newRig(t, 900)
		r.options.Interval = interval
		fs := &flights{rig: r}
		r.options.Advance = fs.advance
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(70 * time.Minute))) // the first rollup is of a whole hour
		began := time.Now()
		r.start()
		for key := range known + 1 {
			fs.launch(key, 100*time.Millisecond)
		}
		next := known + 1
		fs.launch(next, 3*time.Hour+7*time.Minute) // a new statement
		fs.launch(known, 4*time.Hour)              // a known one, which is not called otherwise
		const long = 2
		for busy := 0; time.Since(began) < 7*time.Hour; busy = fs.land() {
			for ; busy < sessions+long && time.Since(began) > time.Second; busy++ {
				key := random.IntN(2*known+1) - 1
				if key >= known {
					next++
					key = next
				}
				fs.launch(key, time.Duration(0.1*math.Pow(40_000, random.Float64())*float64(time.Second)).Round(100*time.Millisecond))
			}
			time.Sleep(time.Duration(1+random.IntN(40)) * 100 * time.Millisecond)
			if random.IntN(5000) == 0 {
				r.stop()
				time.Sleep(time.Second)
				r.start()
			}
		}
		end := time.Now()
		for range 5 {
			ago := 5*time.Minute + time.Duration(random.Int64N(int64(4*time.Hour)))
			fs.checkCurve(end.Add(-ago), end.Add(-ago+5*time.Minute+time.Duration(random.Int64N(int64(ago)))), 1+random.IntN(60), margin, statements.SourceSamples)
		}
		fs.checkCurve(end.Add(-4*time.Hour), end, 60, margin, statements.SourceSamples)
		fs.checkCurve(began, end, 12, margin, statements.SourceRollups)
		for range 20 {
			f := fs.all[random.IntN(len(fs.all))]
			at := f.start.Add(time.Duration(random.Int64N(int64(f.end.Sub(f.start)))))
			if f.key < 0 || at.Add(-margin).Before(f.start) || at.After(end) {
				continue
			}
			want, near := fs.of(f.key, false, at, margin)
			if got := r.value(`histogram_sum(tare_query_duration_seconds{digest="`+hexOf(f.key)+`"})`, at); math.Abs(got-want) > near*margin.Seconds() {
				t.Errorf("the series of %d has %v s at %v, want %v", f.key, got, at, want)
			}
		}

		for fs.land() > 0 {
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * interval)
		top, err := r.reader.Top(t.Context(), statements.TopQuery{From: began.Add(-time.Hour), To: time.Now(), Limit: statements.MaxTopLimit})
		r.must(err)
		exact := func(of string, totals statements.Totals, key int) {
			seconds, _ := fs.of(key, of == "all", time.Now(), 0)
			calls := 0
			for _, f := range fs.all {
				if f.key == key || of == "all" {
					calls++
				}
			}
			if math.Abs(totals.Seconds-seconds) > 1e-9*seconds || totals.Calls != uint64(calls) {
				t.Errorf("%s %d: %v s of %d calls, want %v s of %d", of, key, totals.Seconds, totals.Calls, seconds, calls)
			}
		}
		exact("all", top.Total, 0)
		for _, row := range top.Rows {
			exact("key", row.Totals, keyOfDigest(row.Digest))
		}
		if len(top.Rows) != next+1 {
			t.Errorf("%d rows, want %d", len(top.Rows), next+1)
		}
		if d := r.archive.Unexplained(); len(d) > 0 {
			t.Errorf("the series differ from the ledger: %+v", d)
		}
		r.stop()
	})
}
