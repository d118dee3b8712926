package rollup_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/testrollup"
)

var errBroken = errors.New("broken")

// A scriptedSource has one row in some hours, counted from the start of a day.
type scriptedSource struct {
	hours   []int
	fail    int // the hour whose samples cannot be read; -1: none
	derived []int
	since   []int64
	carried []uint64
}

func dayStart() time.Time { return testrollup.Start().Truncate(rollup.Day) }

func hourOf(at int64) int { return int(time.UnixMilli(at).Sub(dayStart()) / time.Hour) }

func (s *scriptedSource) Start() int64 {
	return dayStart().Add(time.Duration(s.hours[0])*time.Hour + time.Minute).UnixMilli()
}

func (s *scriptedSource) Next(from int64) int64 {
	for _, h := range s.hours {
		if at := dayStart().Add(time.Duration(h)*time.Hour + time.Minute).UnixMilli(); at >= from {
			return at
		}
	}
	return math.MaxInt64
}

func (s *scriptedSource) Derive(_ context.Context, start time.Time, since int64, before rollup.Carry) (*rollup.Rollup, error) {
	h := hourOf(start.UnixMilli())
	if h == s.fail {
		return nil, errBroken
	}
	s.derived, s.since, s.carried = append(s.derived, h), append(s.since, since), append(s.carried, before.Counts[stmtstats.Calls])
	if !slices.Contains(s.hours, h) {
		return nil, nil
	}
	up := testrollup.Random(rand.New(rand.NewPCG(uint64(h), 1)), start, 1)
	up.Carry.Counts[stmtstats.Calls] = uint64(h + 1)
	return up, nil
}

// A storeRig is a store whose uploads and space fail by a script.
type storeRig struct {
	t       *testing.T
	dir     string
	state   *localstate.Store
	now     time.Time
	bucket  map[string]string
	uploads int
	fail    func(upload int) (before, after error)
	space   error
	logged  strings.Builder
	*rollup.Store
}

func newStoreRig(t *testing.T) *storeRig {
	r := &storeRig{t: t, dir: filepath.Join(t.TempDir(), "rollups"), now: dayStart().Add(100 * time.Hour), bucket: make(map[string]string)}
	r.open()
	return r
}

func (r *storeRig) open() {
	r.t.Helper()
	log := slog.New(slog.NewTextHandler(&r.logged, nil))
	r.state = localstate.Open(filepath.Dir(r.dir), nil, log)
	var err error
	r.Store, err = rollup.OpenStore(rollup.StoreOptions{
		Dir: r.dir, Labels: map[string]string{"instance": "gw-1"}, Age: 30 * 24 * time.Hour, State: r.state, Log: log,
		Now:   func() time.Time { return r.now },
		Space: func(int64) error { return r.space },
		Upload: func(_ context.Context, object string, content []byte) error {
			r.uploads++
			if r.fail != nil {
				before, after := r.fail(r.uploads)
				if before != nil {
					return before
				}
				defer func() { r.bucket[object] = string(content) }()
				return after
			}
			r.bucket[object] = string(content)
			return nil
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// hours returns the hours that have files, and days the number of daily files.
func (r *storeRig) files() (hours []int, days int) {
	for _, n := range r.List(func(rollup.Name) bool { return true }) {
		if n.Span == rollup.Day {
			days++
		} else {
			hours = append(hours, hourOf(n.Begin().UnixMilli()))
		}
	}
	return hours, days
}

// totals returns the sums of all files of a span, and their durations.
func (r *storeRig) totals(span time.Duration) (all stmtstats.Counts, spread string) {
	r.t.Helper()
	var h stmtstats.Histogram
	for _, n := range r.List(func(n rollup.Name) bool { return n.Span == span }) {
		f, err := r.Open(n)
		if err != nil {
			r.t.Fatal(err)
		}
		if err := errors.Join(f.AddTotals(&all, &h), f.Close()); err != nil {
			r.t.Fatal(err)
		}
	}
	return all, string(h.AppendSpread(nil))
}

func settled(hour int, d time.Duration) int64 {
	return dayStart().Add(time.Duration(hour)*time.Hour + d).UnixMilli()
}

// TestStoreHours derives hours in order, once, with the counts carried over, and leaves out those without samples.
func TestStoreHours(t *testing.T) {
	r := newStoreRig(t)
	s := &scriptedSource{hours: []int{3, 4, 7, 20}, fail: -1}
	work := func(at int64, wantHours []int, wantUntil int) {
		t.Helper()
		if err := r.Work(t.Context(), s, at); err != nil {
			t.Fatal(err)
		}
		if hours, _ := r.files(); !slices.Equal(hours, wantHours) {
			t.Errorf("the hours are %d, want %d", hours, wantHours)
		}
		if until := r.Until(); wantUntil >= 0 && hourOf(until.UnixMilli()) != wantUntil || wantUntil < 0 && !until.IsZero() {
			t.Errorf("derived until %v, want hour %d", until, wantUntil)
		}
	}
	work(settled(3, 30*time.Second), nil, -1) // before the first sample
	work(settled(4, -time.Millisecond), nil, -1)
	if r.First() != math.MaxInt64 {
		t.Errorf("the first file starts at %d", r.First())
	}
	work(settled(4, 0), []int{3}, 4)
	work(settled(5, time.Minute), []int{3, 4}, 5)
	r.open() // as after a restart
	work(settled(6, 0), []int{3, 4}, 6)
	work(settled(8, 0), []int{3, 4, 7}, 8)
	work(settled(21, 0), []int{3, 4, 7, 20}, 21)
	if want := []int{3, 4, 5, 6, 7, 8}; !slices.Equal(s.derived[:6], want) || s.derived[len(s.derived)-1] != 20 || len(s.derived) > 10 {
		t.Errorf("the hours %d were derived", s.derived)
	}
	if s.carried[0] != 0 || s.carried[1] != 4 || s.carried[2] != 5 || s.carried[len(s.carried)-1] != 8 {
		t.Errorf("%d calls were carried over", s.carried)
	}
	newest := dayStart().Add(4*time.Hour).UnixMilli() + 12345
	if s.since[0] != s.Start() || s.since[2] != newest-rollup.BaseMargin.Milliseconds() {
		t.Errorf("samples since %d were read, start %d, newest %d", s.since, s.Start(), newest)
	}
	var bytes int64
	for _, n := range r.List(func(rollup.Name) bool { return true }) {
		info, err := os.Stat(filepath.Join(r.dir, n.String()))
		if err != nil {
			t.Fatal(err)
		}
		if bytes += info.Size(); r.Size(n) != info.Size() || !r.Shipped(n) || r.bucket[r.Object(n)] == "" {
			t.Errorf("%s: %d bytes, %d on disk, shipped %t", n, r.Size(n), info.Size(), r.Shipped(n))
		}
	}
	if r.Bytes.Load() != bytes || r.First() != dayStart().Add(3*time.Hour).Unix() || r.Size(rollup.Name{}) != 0 {
		t.Errorf("%d bytes, want %d; from %d", r.Bytes.Load(), bytes, r.First())
	}
	if len(r.bucket) != 4 || r.uploads != 4 {
		t.Errorf("%d objects in %d uploads, want 4", len(r.bucket), r.uploads)
	}
}

// TestStoreFaults fails samples, space and each upload in each way: the work fails and is counted, and the next one completes it.
func TestStoreFaults(t *testing.T) {
	all := make([]int, 24)
	for h := range all {
		all[h] = h
	}
	want := func() map[string]string { // objects by their last part
		r := newStoreRig(t)
		if err := r.Work(t.Context(), &scriptedSource{hours: all, fail: -1}, settled(24, 0)); err != nil {
			t.Fatal(err)
		}
		if hours, days := r.files(); len(hours) != 24 || days != 1 || r.uploads != 25 {
			t.Fatalf("%d hours, %d days, %d uploads", len(hours), days, r.uploads)
		}
		hours, hourSpread := r.totals(rollup.Hour)
		day, daySpread := r.totals(rollup.Day)
		if day != hours || daySpread != hourSpread || day[stmtstats.Calls] == 0 {
			t.Errorf("the day has %+v, its hours %+v", day, hours)
		}
		return lastParts(r.bucket)
	}()
	check := func(t *testing.T, r *storeRig, failed error, failures int64) {
		t.Helper()
		if !errors.Is(failed, errBroken) || r.Failures.Load() != failures {
			t.Errorf("%v, %d failures; want %v, %d", failed, r.Failures.Load(), errBroken, failures)
		}
		r.fail, r.space = nil, nil
		r.open()
		if err := r.Work(t.Context(), &scriptedSource{hours: all, fail: -1}, settled(24, 0)); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		if got := lastParts(r.bucket); !maps.Equal(got, want) {
			t.Errorf("%d objects, want %d", len(got), len(want))
		}
		for _, n := range r.List(func(rollup.Name) bool { return true }) {
			if !r.Shipped(n) {
				t.Errorf("%s is not shipped", n)
			}
		}
	}
	for _, h := range []int{0, 1, 23} {
		r := newStoreRig(t)
		err := r.Work(t.Context(), &scriptedSource{hours: all, fail: h}, settled(24, 0))
		if hours, days := r.files(); len(hours) != h || days != 0 || len(r.bucket) != h {
			t.Errorf("%d hours and %d days after samples of hour %d failed; %d objects", len(hours), days, h, len(r.bucket))
		}
		check(t, r, err, 1)
	}
	r := newStoreRig(t)
	r.space = errBroken
	check(t, r, r.Work(t.Context(), &scriptedSource{hours: all, fail: -1}, settled(24, 0)), 1)
	for upload := 1; upload <= 25; upload += 24 {
		for name, fail := range map[string]func(n int) (before, after error){
			"before":  func(n int) (error, error) { return broken(n == upload), nil },
			"after":   func(n int) (error, error) { return nil, broken(n == upload) },
			"forever": func(n int) (error, error) { return broken(n >= upload), nil },
		} {
			t.Run(name, func(t *testing.T) {
				r := newStoreRig(t)
				r.fail = fail
				err := r.Work(t.Context(), &scriptedSource{hours: all, fail: -1}, settled(24, 0))
				if name != "forever" && len(r.bucket) < 24 {
					t.Errorf("%d objects: one failure delays others", len(r.bucket))
				}
				check(t, r, err, 0)
			})
		}
	}
}

func broken(fails bool) error {
	if fails {
		return errBroken
	}
	return nil
}

// lastParts returns the objects by the last parts of their names, after the epoch.
func lastParts(bucket map[string]string) map[string]string {
	objects := make(map[string]string)
	for name, text := range bucket {
		objects[name[strings.LastIndex(name, "/")+1:]] = text
	}
	return objects
}

// TestStoreCanceled stops between hours and ships nothing when its context has ended.
func TestStoreCanceled(t *testing.T) {
	r := newStoreRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Work(ctx, &scriptedSource{hours: []int{1, 2}, fail: -1}, settled(5, 0)); err != nil {
		t.Error(err)
	}
	if hours, _ := r.files(); len(hours) != 0 || r.uploads != 0 {
		t.Errorf("the hours %d, %d uploads", hours, r.uploads)
	}
}

// TestStoreDamaged sets a damaged hour aside, does not merge its day, ships no damaged file, and keeps the rest.
func TestStoreDamaged(t *testing.T) {
	r := newStoreRig(t)
	s := &scriptedSource{hours: []int{1, 2, 3}, fail: -1}
	if err := r.Work(t.Context(), s, settled(4, 0)); err != nil {
		t.Fatal(err)
	}
	for hour, text := range map[int]string{2: "no rollup"} {
		name := rollup.Name{Start: dayStart().Add(time.Duration(hour) * time.Hour).Unix(), Span: rollup.Hour}
		if err := os.WriteFile(filepath.Join(r.dir, name.String()), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.open()
	if hours, _ := r.files(); !slices.Equal(hours, []int{1, 3}) || r.state.Counts()["rollup"] != 1 {
		t.Errorf("the hours %d, losses %v", hours, r.state.Counts())
	}
	if err := r.Work(t.Context(), s, settled(24, 0)); err != nil {
		t.Error(err)
	}
	if hours, days := r.files(); !slices.Equal(hours, []int{1, 3}) || days != 0 {
		t.Errorf("the hours %d and %d days: a day with a missing hour is merged", hours, days)
	}
	// A file that is damaged before it was shipped.
	if err := r.Write(testrollup.Random(rand.New(rand.NewPCG(1, 1)), dayStart().Add(30*time.Hour), 5)); err != nil {
		t.Fatal(err)
	}
	name := rollup.Name{Start: dayStart().Add(30 * time.Hour).Unix(), Span: rollup.Hour}
	path := filepath.Join(r.dir, name.String())
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[100] ^= 1
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Work(t.Context(), s, settled(24, 0)); err == nil || !strings.Contains(err.Error(), name.String()) || r.bucket[r.Object(name)] != "" || r.Shipped(name) {
		t.Errorf("a damaged file is shipped: %v", err)
	}
	// The recorded state is damaged: everything is shipped again, under another epoch. The day is merged: the record of its missing hour is lost.
	epoch := r.Epoch()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "rollups.json"), []byte(`{"version":1,"epoch":"x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r.open()
	clear(r.bucket)
	if err := r.Work(t.Context(), s, settled(24, 0)); err != nil || r.Epoch() == epoch || len(r.bucket) != 3 || r.state.Counts()["rollup state"] != 1 {
		t.Errorf("%v, epoch %s after %s, %d objects, losses %v", err, r.Epoch(), epoch, len(r.bucket), r.state.Counts())
	}
	// A rollup that was never shipped is deleted by age, and logged.
	r.fail = func(int) (error, error) { return errBroken, nil }
	if err := r.Write(testrollup.Random(rand.New(rand.NewPCG(1, 1)), dayStart().Add(40*time.Hour), 1)); err != nil {
		t.Fatal(err)
	}
	r.now = dayStart().Add(60 * 24 * time.Hour)
	if err := r.Work(t.Context(), s, settled(4, 0)); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	if hours, days := r.files(); len(hours)+days != 0 || r.Bytes.Load() != 0 || strings.Count(r.logged.String(), "a rollup is deleted that is not in the bucket") != 1 {
		t.Errorf("the hours %d, %d days, %d bytes; logged:\n%s", hours, days, r.Bytes.Load(), r.logged.String())
	}
}

// TestStoreNames compares names, hours before days.
func TestStoreNames(t *testing.T) {
	a, b := rollup.Name{Start: 0, Span: rollup.Hour}, rollup.Name{Start: 0, Span: rollup.Day}
	c := rollup.Name{Start: 3600, Span: rollup.Hour}
	for _, p := range []struct {
		x, y rollup.Name
		want int
	}{{a, a, 0}, {a, b, -1}, {b, a, 1}, {b, c, -1}, {c, a, 1}} {
		if got := p.x.Compare(p.y); got != p.want {
			t.Errorf("%v, %v: %d, want %d", p.x, p.y, got, p.want)
		}
	}
	if !b.End().Equal(time.Unix(86400, 0)) || !b.Begin().Equal(time.Unix(0, 0)) {
		t.Errorf("from %v to %v", b.Begin(), b.End())
	}
}
