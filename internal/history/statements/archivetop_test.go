package statements_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// A called is a call of a test.
type called struct {
	at     time.Time
	key    int
	took   time.Duration
	failed bool
}

// A diary has all calls of a test.
type diary []called

// of returns the calls of a key in (from, to]; -1: of all keys.
func (d diary) of(key int, from, to time.Time) (calls, failed uint64, seconds float64) {
	for _, c := range d {
		if (key < 0 || c.key == key) && c.at.After(from) && !c.at.After(to) {
			calls++
			seconds += c.took.Seconds()
			if c.failed {
				failed++
			}
		}
	}
	return calls, failed, seconds
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Max(1, math.Abs(b)) }

// checkTop queries a time range and compares the result with the diary.
func (r *rig) checkTop(t *testing.T, calls diary, from, to time.Time, source string) {
	t.Helper()
	top, err := r.reader.Top(t.Context(), statements.TopQuery{From: from, To: to, Points: 12, Compare: true})
	if err != nil {
		t.Fatal(err)
	}
	if top.Source != source || len(top.Notes) > 0 {
		t.Errorf("from %v to %v: from %s, with notes %q; want %s", from, to, top.Source, top.Notes, source)
	}
	n, failed, seconds := calls.of(-1, top.From, top.To)
	if top.Total.Calls != n || top.Total.Errors != failed || !near(top.Total.Seconds, seconds) {
		t.Errorf("from %v to %v: %+v, want %d calls, %d errors, %v s", top.From, top.To, top.Total, n, failed, seconds)
	}
	span := top.To.Sub(top.From)
	before := top.From.Add(-span)
	if source == statements.SourceRollups {
		before = before.Truncate(time.Hour)
	}
	if n, _, _ := calls.of(-1, before, top.From); top.Before.Calls != n {
		t.Errorf("before %v: %d calls, want %d", top.From, top.Before.Calls, n)
	}
	least := math.Inf(1)
	for _, row := range top.Rows {
		key := keyOfDigest(row.Digest)
		n, failed, seconds := calls.of(key, top.From, top.To)
		if row.Calls != n || row.Errors != failed || !near(row.Seconds, seconds) || row.Key != keyOf(key) || !strings.HasPrefix(row.Text, "SELECT x") {
			t.Errorf("from %v to %v: %+v, want %d calls, %d errors, %v s", top.From, top.To, row, n, failed, seconds)
		}
		if row.Seconds > least+1e-9 {
			t.Errorf("rows are not in order")
		}
		least = row.Seconds
		sum, lengths := 0.0, pointLengths(&top.Series)
		for i, p := range row.Points {
			sum += p * lengths[i]
		}
		if source == statements.SourceRollups && !near(sum, seconds) {
			t.Errorf("points of %v: %v are %v s, want %v", row.Key, row.Points, sum, seconds)
		}
		if source == statements.SourceSamples && sum > seconds+1e-6 { // the newest interval is not in the samples
			t.Errorf("points of %v are %v s, more than %v", row.Key, sum, seconds)
		}
	}
	checkSeries(t, calls, top)
}

// pointLengths returns the length of each point in seconds.
func pointLengths(s *statements.Series) []float64 {
	lengths := make([]float64, len(s.Times))
	for i := range lengths {
		if lengths[i] = s.Step.Seconds(); i == len(lengths)-1 {
			lengths[i] = s.End.Sub(s.Times[i]).Seconds()
		}
	}
	return lengths
}

// checkSeries compares the points of all statements with the diary: calls and errors up to the end of each
// point, within the delay of a sample, and the quantiles if no call is that close to either end.
func checkSeries(t *testing.T, calls diary, top *statements.Top) {
	t.Helper()
	s := &top.Series
	if len(s.Times) == 0 || len(s.Times) > 12 || len(s.Calls) != len(s.Times) || len(s.P999) != len(s.Times) {
		t.Fatalf("from %v to %v: %d points, %d of them with calls", top.From, top.To, len(s.Times), len(s.Calls))
	}
	margin := 2 * time.Minute
	if top.Source == statements.SourceRollups {
		margin = 0
	}
	lengths := pointLengths(s)
	sum, failures, load, quantiles := 0.0, 0.0, 0.0, 0
	for i, begin := range s.Times {
		end := begin.Add(time.Duration(lengths[i] * float64(time.Second)))
		sum += s.Calls[i] * lengths[i]
		failures += s.Errors[i] * lengths[i]
		load += s.Load[i] * lengths[i]
		least, leastFailed, leastSeconds := calls.of(-1, top.From, end.Add(-margin))
		most, mostFailed, mostSeconds := calls.of(-1, top.From, end.Add(margin))
		if sum < float64(least)-1e-6 || sum > float64(most)+1e-6 || failures < float64(leastFailed)-1e-6 || failures > float64(mostFailed)+1e-6 ||
			load < leastSeconds-1e-6 || load > mostSeconds+1e-6 {
			t.Errorf("%s, up to %v: %v calls, %v errors, %v s; want %d to %d, %d to %d, %v to %v",
				top.Source, end, sum, failures, load, least, most, leastFailed, mostFailed, leastSeconds, mostSeconds)
		}
		var h stmtstats.Histogram
		clear := true
		for _, c := range calls {
			if c.at.After(begin) && !c.at.After(end) {
				h.Record(c.took)
			}
			for _, border := range []time.Time{begin, end} {
				clear = clear && (margin == 0 || c.at.Sub(border).Abs() > margin)
			}
		}
		if !clear {
			continue
		}
		quantiles++
		for _, q := range []struct {
			q   float64
			got float64
		}{{0.5, s.P50[i]}, {0.99, s.P99[i]}, {0.999, s.P999[i]}} {
			if want := h.Quantile(q.q).Seconds(); !near(q.got, want) {
				t.Errorf("%s, %v to %v: quantile %v is %v, want %v", top.Source, begin, end, q.q, q.got, want)
			}
		}
	}
	if quantiles == 0 {
		t.Errorf("%s, from %v: no point has its quantiles compared", top.Source, top.From)
	}
}

// TestArchiveTop runs for two days with restarts and a kill, and queries short and long ranges: calls,
// errors, seconds, points and the previous range match the calls.
func TestArchiveTop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 100)
		began := time.Now()
		r.start()
		rng := rand.New(rand.NewPCG(11, 12))
		var calls diary
		for hour := range 40 {
			for range 4 {
				time.Sleep(10 * time.Minute)
				for range rng.IntN(12) {
					calls = append(calls, r.call(rng.IntN(8), time.Duration(rng.IntN(1e9)), rng.IntN(9) == 0))
				}
				time.Sleep(2 * time.Minute) // a round
			}
			time.Sleep(12 * time.Minute)
			switch hour {
			case 11:
				r.restart()
			case 23:
				r.kill()
			}
		}
		time.Sleep(3 * time.Minute)
		now := time.Now()
		r.checkTop(t, calls, now.Add(-4*time.Hour), now, statements.SourceSamples)
		r.checkTop(t, calls, now.Add(-3*time.Hour), now.Add(-time.Hour), statements.SourceSamples)
		r.reader.AddUpNoSamples()
		r.checkTop(t, calls, now.Add(-4*time.Hour), now, statements.SourceSamples)
		r.checkTop(t, calls, now.Add(-3*time.Hour), now.Add(-time.Hour), statements.SourceSamples)
		r.checkTop(t, calls, now.Add(-10*time.Hour), now, statements.SourceRollups)
		r.checkTop(t, calls, began, now, statements.SourceRollups)
		r.checkTop(t, calls, began.Add(3*time.Hour+time.Minute), began.Add(30*time.Hour), statements.SourceRollups)

		all, err := r.reader.Top(t.Context(), statements.TopQuery{From: began, To: now, AllInstances: true})
		if n, _, _ := calls.of(-1, began, now); err != nil || all.Total.Calls != n {
			t.Errorf("of all gateways: %+v (%v), want %d calls", all, err, n)
		}
		for _, by := range []statements.Measure{statements.ByP99, statements.ByMean, statements.ByErrors, statements.ByFirstSeen} {
			top, err := r.reader.Top(t.Context(), statements.TopQuery{From: began, To: now, By: by, Filter: "user=app select"})
			if err != nil || top.Matching != 4 || len(top.Rows) != 4 {
				t.Fatalf("by %v: %+v (%v)", by, top, err)
			}
			for i := 1; i < len(top.Rows); i++ {
				a, b := &top.Rows[i-1], &top.Rows[i]
				if by == statements.ByP99 && a.P99 < b.P99 || by == statements.ByMean && a.Mean() < b.Mean() || by == statements.ByErrors && a.Errors < b.Errors || by == statements.ByFirstSeen && a.First.Before(b.First) {
					t.Errorf("by %v: %+v stands before %+v", by, a, b)
				}
			}
		}
		for _, from := range []time.Time{began, now.Add(-5 * time.Hour)} {
			st, err := r.reader.Statement(t.Context(), statements.StatementQuery{Digest: hexOf(3), From: from, To: now, Points: 10})
			if err != nil {
				t.Fatal(err)
			}
			n, failed, seconds := calls.of(3, st.From, st.To)
			if st.Calls != n || st.Errors != failed || !near(st.Seconds, seconds) || len(st.Parts) != 1 || st.Parts[0].Key != keyOf(3) || st.Text == "" {
				t.Errorf("statement from %v: %+v, want %d calls, %d errors, %v s", from, st, n, failed, seconds)
			}
			var heat uint64
			sum := 0.0
			for i, n := range st.Series.Calls {
				length := st.Series.Step
				if i == len(st.Series.Calls)-1 {
					length = st.Series.End.Sub(st.Series.Times[i])
				}
				sum += n * length.Seconds()
				for _, c := range st.Heat.Counts[i] {
					heat += c
				}
				if len(st.Heat.Counts[i]) != len(st.Heat.Bounds) {
					t.Fatalf("%d rows of heat, %d bounds", len(st.Heat.Counts[i]), len(st.Heat.Bounds))
				}
			}
			if !near(sum, float64(n)) || heat != n || len(st.Series.Times) != len(st.Series.Calls) {
				t.Errorf("statement from %v: %v calls in its points, %d in its heat, want %d", from, sum, heat, n)
			}
		}
		if _, err := r.reader.Statement(t.Context(), statements.StatementQuery{Digest: strings.Repeat("7", 32), From: began, To: now}); !errors.Is(err, statements.ErrNoStatement) {
			t.Errorf("an unknown digest: %v", err)
		}
		r.damage(t, calls, began, now)
		r.stop()
	})
}

// damage breaks a day, which is replaced by its hours, then an hour, which is left out with a note.
func (r *rig) damage(t *testing.T, calls diary, began, now time.Time) {
	t.Helper()
	store := r.archive.Instances()[0].Rollups
	flip := func(n rollup.Name) {
		path := filepath.Join(store.Dir, n.String())
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := rollup.Open(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		prints, err := f.Whole(rollup.ColPrints, nil)
		if err != nil {
			t.Fatal(err)
		}
		text[bytes.Index(text, prints)+3] ^= 4
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	days := store.List(func(n rollup.Name) bool { return n.Span == rollup.Day })
	flip(days[0])
	top, err := r.reader.Top(t.Context(), statements.TopQuery{From: began, To: now})
	if n, _, _ := calls.of(-1, began, now); err != nil || top.Total.Calls != n || len(top.Notes) > 0 {
		t.Errorf("with a broken day: %+v (%v), want %d calls", top, err, n)
	}
	hour := store.List(func(n rollup.Name) bool { return n.Span == rollup.Hour && n.Start >= days[0].Start })[2]
	flip(hour)
	top, err = r.reader.Top(t.Context(), statements.TopQuery{From: began, To: now})
	n, _, _ := calls.of(-1, began, now)
	less, _, _ := calls.of(-1, hour.Begin(), hour.End())
	if err != nil || top.Total.Calls != n-less || len(top.Notes) != 1 || !strings.Contains(top.Notes[0], hour.String()) {
		t.Errorf("with a broken hour: %+v (%v), want %d calls", top, err, n-less)
	}
}

// TestArchiveTopNewest queries a range that ends within the newest interval, after calls that no round has
// written yet: the result ends now and includes them. A range that ends before the newest complete round does
// not include them.
func TestArchiveTopNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 100)
		began := time.Now()
		r.start()
		time.Sleep(10*time.Minute + 20*time.Second)
		r.call(1, time.Second, false)
		time.Sleep(5 * time.Second)
		asked := time.Now()
		time.Sleep(20 * time.Second)
		r.call(2, time.Second, false)
		check := func(what string, to, wantTo time.Time, want uint64) {
			t.Helper()
			top, err := r.reader.Top(t.Context(), statements.TopQuery{From: began, To: to, Compare: true})
			if err != nil || top.Total.Calls != want || top.Matching != int(want) || !top.To.Equal(wantTo) || top.Before.Calls != 0 {
				t.Errorf("%s: %+v (%v), want %d calls up to %v", what, top, err, want, wantTo)
			}
			st, err := r.reader.Statement(t.Context(), statements.StatementQuery{Digest: hexOf(1), From: began, To: to})
			if want > 0 && (err != nil || st.Calls != 1 || !st.To.Equal(wantTo)) || want == 0 && !errors.Is(err, statements.ErrNoStatement) {
				t.Errorf("%s: statement %+v (%v)", what, st, err)
			}
		}
		check("within the newest interval", asked, time.Now(), 2)
		top, err := r.reader.Top(t.Context(), statements.TopQuery{From: time.Now(), To: time.Now().Add(time.Hour)})
		if err != nil || top.Total.Calls != 0 || top.Matching != 0 {
			t.Errorf("a range of the future: %+v (%v)", top, err)
		}
		st, err := r.reader.Statement(t.Context(), statements.StatementQuery{Digest: hexOf(2), From: time.Now(), To: time.Now().Add(time.Hour)})
		if !errors.Is(err, statements.ErrNoStatement) {
			t.Errorf("a statement in the future: %+v (%v)", st, err)
		}
		check("before the newest round", began.Add(9*time.Minute), began.Add(9*time.Minute), 0)
		time.Sleep(3 * time.Minute)
		check("once rounds were written", asked.Add(2*time.Minute), asked.Add(2*time.Minute), 2)
		r.stop()
	})
}

// TestArchiveTopFirst queries before anything was sampled: the range starts when the history was opened, and
// the previous range is empty.
func TestArchiveTopFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 100)
		began := time.Now()
		r.start()
		time.Sleep(5 * time.Second)
		r.call(1, time.Second, false)
		time.Sleep(2 * time.Second)
		top, err := r.reader.Top(t.Context(), statements.TopQuery{From: began.Add(-time.Hour), To: time.Now(), Compare: true})
		if err != nil || !top.From.Equal(began) || !top.To.Equal(time.Now()) || top.Total.Calls != 1 || top.Before.Calls != 0 {
			t.Errorf("%+v (%v), want 1 call in the 7 s since %v", top, err, began)
		}
		top, err = r.reader.Top(t.Context(), statements.TopQuery{From: began.Add(-2 * time.Hour), To: began.Add(-time.Hour)})
		if err != nil || top.Total.Calls != 0 {
			t.Errorf("the time before: %+v (%v), want no call", top, err)
		}
		r.stop()
	})
}

// TestNoComparison expects the range before to be compared only if all of it was counted: a constant load that started
// within it, or a gateway that was down in between, has no comparison.
func TestNoComparison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 100)
		r.start()
		call := func(minutes int) {
			for range minutes * 6 {
				time.Sleep(10 * time.Second)
				r.call(1, time.Millisecond, false)
			}
		}
		check := func(minutes int, want string) {
			t.Helper()
			now := time.Now()
			top, err := r.reader.Top(t.Context(), statements.TopQuery{From: now.Add(-time.Duration(minutes) * time.Minute), To: now, Compare: true})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(top.NoComparison, want) || want == "" && top.NoComparison != "" {
				t.Errorf("%d minutes: %q, want %q; %d calls, before %d", minutes, top.NoComparison, want, top.Total.Calls, top.Before.Calls)
			}
			if n := float64(top.Before.Calls); want == "" && math.Abs(float64(top.Total.Calls)-n) > 10 {
				t.Errorf("%d minutes of a constant load: %d calls, before %v", minutes, top.Total.Calls, n)
			}
		}
		call(30)
		check(10, "")
		check(20, "the history starts at ")
		r.stop()
		time.Sleep(8 * time.Minute)
		r.start()
		call(20)
		check(8, "")
		check(14, "there are no samples from ")
		check(24, "there are no samples from ") // within the range itself
		r.stop()
	})
}
