package rollup_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
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

func hourName(hour int) rollup.Name {
	return rollup.Name{Start: dayStart().Add(time.Duration(hour) * time.Hour).Unix(), Span: rollup.Hour}
}

func (r *storeRig) path(n rollup.Name) string { return filepath.Join(r.dir, n.String()) }

// TestStoreRecords has all files recorded, so that a later start reports those that are missing.
func TestStoreRecords(t *testing.T) {
	r := newStoreRig(t)
	recorded := func() []string {
		var names []string
		for path, f := range r.state.Files(r.dir) {
			names = append(names, filepath.Base(path)+" "+f.Name)
		}
		slices.Sort(names)
		return names
	}
	if got := recorded(); !slices.Equal(got, []string{"rollups.json rollup state"}) {
		t.Errorf("of an empty directory %q", got)
	}
	if err := r.Work(t.Context(), &scriptedSource{hours: []int{1, 2}, fail: -1}, settled(3, 0)); err != nil {
		t.Fatal(err)
	}
	want := []string{hourName(1).String() + " rollup", hourName(2).String() + " rollup", "rollups.json rollup state"}
	if got := recorded(); !slices.Equal(got, want) {
		t.Errorf("after two hours %q", got)
	}
	if err := os.Remove(filepath.Join(filepath.Dir(r.dir), localstate.ManifestName)); err != nil {
		t.Fatal(err)
	}
	r.open()
	if got := recorded(); !slices.Equal(got, want) {
		t.Errorf("by the next start %q", got)
	}
	for _, name := range []string{r.path(hourName(2)), filepath.Join(r.dir, "rollups.json")} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	r.open()
	if got := r.state.Counts(); !maps.Equal(got, map[string]uint64{"rollup": 1, "rollup state": 1}) {
		t.Errorf("losses %v", got)
	}
	r.now = dayStart().Add(60 * 24 * time.Hour)
	if err := r.Work(t.Context(), &scriptedSource{hours: []int{1}, fail: -1}, settled(1, 0)); err != nil {
		t.Fatal(err)
	}
	if got := recorded(); !slices.Equal(got, want[2:]) {
		t.Errorf("after the files were deleted by age %q", got)
	}
}

// TestStoreResumes continues with the carry and the newest sample of the newest hour, which a day of the same end does not have.
func TestStoreResumes(t *testing.T) {
	r := newStoreRig(t)
	s := &scriptedSource{hours: []int{22, 23, 25}, fail: -1}
	if err := r.Work(t.Context(), s, settled(24, 0)); err != nil {
		t.Fatal(err)
	}
	if hours, days := r.files(); !slices.Equal(hours, []int{22, 23}) || days != 1 {
		t.Fatalf("hours %v, %d days", hours, days)
	}
	newest := r.Newest.Load()
	if want := dayStart().Add(23*time.Hour).UnixMilli() + 12345; newest != want {
		t.Errorf("the newest sample is of %d, want %d", newest, want)
	}
	r.open()
	if got := r.Newest.Load(); got != newest || !r.Until().Equal(dayStart().Add(24*time.Hour)) {
		t.Errorf("after a restart the newest sample is of %d, want %d; done until %v", got, newest, r.Until())
	}
	if err := r.Work(t.Context(), s, settled(26, 0)); err != nil {
		t.Fatal(err)
	}
	if n := len(s.carried); s.carried[n-1] != 24 || s.carried[n-2] != 24 {
		t.Errorf("%d calls were carried over", s.carried)
	}
	// The newest hour cannot be read: samples are read from the start again.
	text, err := os.ReadFile(r.path(hourName(25)))
	if err != nil {
		t.Fatal(err)
	}
	for i := 48; i < 200; i++ { // the first columns
		text[i] ^= 0xff
	}
	if err := os.WriteFile(r.path(hourName(25)), text, 0o600); err != nil {
		t.Fatal(err)
	}
	r.open()
	if got := r.Newest.Load(); got != 0 || !r.Until().Equal(dayStart().Add(26*time.Hour)) {
		t.Errorf("the newest sample is of %d, done until %v", got, r.Until())
	}
}

// TestStoreUnreadableHour has a day with an hour that cannot be read or opened not merged, and the next one merged.
func TestStoreUnreadableHour(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"read": func(path string) error {
			text, err := os.ReadFile(path)
			if err == nil {
				text[48] ^= 1
				err = os.WriteFile(path, text, 0o600)
			}
			return err
		},
		"opened": os.Remove,
	} {
		r := newStoreRig(t)
		s := &scriptedSource{hours: []int{3, 4, 5, 27, 28}, fail: -1}
		r.fail = func(int) (error, error) { return errBroken, nil }
		if err := r.Work(t.Context(), s, settled(23, 0)); !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
		if err := damage(r.path(hourName(4))); err != nil {
			t.Fatal(err)
		}
		r.fail = nil
		if err := r.Work(t.Context(), s, settled(48, 0)); err == nil || !strings.Contains(err.Error(), "ship rollup "+hourName(4).String()) || r.Failures.Load() != 0 {
			t.Errorf("%s: %v, %d failures", name, err, r.Failures.Load())
		}
		if hours, days := r.files(); len(hours) != 5 || days != 1 || strings.Count(r.logged.String(), "daily rollup failed") != 1 {
			t.Errorf("%s: hours %d, %d days; logged\n%s", name, hours, days, r.logged.String())
		}
		if len(r.bucket) != 5 {
			t.Errorf("%s: %d objects, want those of the other hours and the day", name, len(r.bucket))
		}
	}
}

// TestStoreDeletes has a file that cannot be deleted reported and kept in the list, while others are deleted; one that is missing already counts as deleted.
func TestStoreDeletes(t *testing.T) {
	r := newStoreRig(t)
	r.Store.Age = time.Hour
	r.now = dayStart()
	for hour := range 3 {
		if err := r.Write(testrollup.Random(rand.New(rand.NewPCG(1, 1)), dayStart().Add(time.Duration(hour)*time.Hour), 1)); err != nil {
			t.Fatal(err)
		}
	}
	var sizes [3]int64
	for hour := range sizes {
		sizes[hour] = r.Size(hourName(hour))
	}
	for _, hour := range []int{0, 1} {
		if err := os.Remove(r.path(hourName(hour))); err != nil {
			t.Fatal(err)
		}
	}
	stuck := filepath.Join(r.path(hourName(0)), "file")
	if err := errors.Join(os.MkdirAll(filepath.Dir(stuck), 0o700), os.WriteFile(stuck, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	r.fail = func(int) (error, error) { return errBroken, nil }
	idle := &scriptedSource{hours: []int{0}, fail: -1}
	for _, c := range []struct {
		age  time.Duration // of the newest
		want []int
	}{{0, []int{0, 1, 2}}, {time.Hour, []int{0, 2}}, {time.Hour + 1, []int{0}}} {
		r.now = dayStart().Add(3*time.Hour + c.age)
		err := r.Work(t.Context(), idle, settled(0, 0))
		if err == nil || !strings.Contains(err.Error(), "delete rollup "+hourName(0).String()) {
			t.Errorf("age %v: %v", c.age, err)
		}
		var bytes int64
		for _, hour := range c.want {
			bytes += sizes[hour]
		}
		if hours, _ := r.files(); !slices.Equal(hours, c.want) || r.Bytes.Load() != bytes {
			t.Errorf("age %v: hours %d, %d bytes, want %d", c.age, hours, r.Bytes.Load(), bytes)
		}
	}
	if err := os.RemoveAll(filepath.Dir(stuck)); err != nil {
		t.Fatal(err)
	}
	if err := r.Work(t.Context(), idle, settled(0, 0)); err == nil || strings.Contains(err.Error(), "delete rollup") {
		t.Error(err)
	}
	if hours, _ := r.files(); len(hours) != 0 || r.Bytes.Load() != 0 {
		t.Errorf("hours %d, %d bytes", hours, r.Bytes.Load())
	}
}

// TestStoreHourAge has hours kept exactly as long as they may be needed, and those whose day was not merged longer.
func TestStoreHourAge(t *testing.T) {
	for _, merged := range []bool{true, false} {
		r := newStoreRig(t)
		r.now = dayStart()
		s := &scriptedSource{hours: []int{1, 2}, fail: -1}
		until := settled(24, 0)
		if !merged {
			until = settled(3, 0)
		}
		if err := r.Work(t.Context(), s, until); err != nil {
			t.Fatal(err)
		}
		for _, more := range []time.Duration{0, 1} {
			r.now = hourName(1).End().Add(rollup.HourAge + more)
			if err := r.Work(t.Context(), s, until); err != nil {
				t.Fatal(err)
			}
			want := []int{1, 2}
			if merged && more > 0 {
				want = want[1:]
			}
			if hours, _ := r.files(); !slices.Equal(hours, want) {
				t.Errorf("merged %t, %v more than the age: hours %d, want %d", merged, more, hours, want)
			}
		}
	}
}

// TestStoreStops has an error together with a context that is done: it is returned, and nothing is shipped.
func TestStoreStops(t *testing.T) {
	r := newStoreRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := r.Work(ctx, canceling{&scriptedSource{hours: []int{1, 2}, fail: 2}, cancel}, settled(3, 0))
	if !errors.Is(err, errBroken) || r.uploads != 0 || r.Failures.Load() != 1 {
		t.Errorf("%v, %d uploads, %d failures", err, r.uploads, r.Failures.Load())
	}
}

// canceling is a source that cancels the work with the hour that fails.
type canceling struct {
	*scriptedSource
	cancel context.CancelFunc
}

func (c canceling) Derive(ctx context.Context, start time.Time, since int64, before rollup.Carry) (*rollup.Rollup, error) {
	up, err := c.scriptedSource.Derive(context.WithoutCancel(ctx), start, since, before)
	if err != nil {
		c.cancel()
	}
	return up, err
}

// TestStoreState has each recorded state that cannot be used set aside, and the directory that cannot be created reported.
func TestStoreState(t *testing.T) {
	const epoch = "01KVBAQ0000000000000000000"
	for text, lost := range map[string]bool{
		`{"version":1,"epoch":"` + epoch + `"}`: false, `{"version":1,"epoch":"` + epoch[1:] + `"}`: true, `{"version":1`: true, ``: true, `[]`: true,
	} {
		r := &storeRig{t: t, dir: filepath.Join(t.TempDir(), "rollups"), now: dayStart(), bucket: make(map[string]string)}
		if err := errors.Join(os.MkdirAll(r.dir, 0o700), os.WriteFile(filepath.Join(r.dir, "rollups.json"), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		r.open()
		if got := r.state.Counts()["rollup state"] == 1; got != lost || (r.Epoch() == epoch) == lost {
			t.Errorf("%s: lost %t, epoch %s", text, got, r.Epoch())
		}
		again := r.Epoch()
		if r.open(); r.Epoch() != again {
			t.Errorf("%s: epoch %s is not kept", text, again)
		}
	}
	r := newStoreRig(t)
	if got := r.state.Counts(); len(got) != 0 {
		t.Errorf("losses of a new directory: %v", got)
	}
	log := slog.New(slog.DiscardHandler)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := rollup.OpenStore(rollup.StoreOptions{Dir: filepath.Join(file, "rollups"), State: localstate.Open(t.TempDir(), nil, log), Now: time.Now, Log: log})
	if err == nil || !strings.Contains(err.Error(), "create rollup directory") {
		t.Errorf("below a file: %v", err)
	}
}

// TestStoreOtherFiles has files that are no rollups left alone, and rollups of other times than their names set aside.
func TestStoreOtherFiles(t *testing.T) {
	r := newStoreRig(t)
	if err := r.Write(testrollup.Random(rand.New(rand.NewPCG(1, 1)), hourName(1).Begin(), 1)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(r.path(hourName(1)))
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(r.dir, "a-note.txt")
	if err := errors.Join(os.WriteFile(other, nil, 0o600), os.WriteFile(r.path(hourName(2)), text, 0o600), os.Mkdir(r.path(hourName(3)), 0o700)); err != nil {
		t.Fatal(err)
	}
	if r.open(); r.state.Counts()["rollup"] != 2 || !r.Until().Equal(hourName(1).End()) {
		t.Errorf("losses %v, done until %v", r.state.Counts(), r.Until())
	}
	if hours, _ := r.files(); !slices.Equal(hours, []int{1}) {
		t.Errorf("hours %d", hours)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

// TestSealedBytes changes each byte of a file whose checksums are correct to values near it: each way to read the file succeeds or has an error of the file.
func TestSealedBytes(t *testing.T) {
	content := testrollup.Random(rand.New(rand.NewPCG(5, 6)), testrollup.Start(), 3)
	text := testrollup.Encode(t, content)
	var details []*rollup.Detail
	for i := range content.Rows {
		details = append(details, &rollup.Detail{Print: content.Rows[i].Print})
	}
	var u rollup.TextDecoder
	defer u.Close()
	refused := 0
	for i := range text {
		for _, change := range []byte{1, 0xff, 0x80} {
			damaged := slices.Clone(text)
			damaged[i] += change
			damaged = testrollup.Seal(damaged)
			f, err := rollup.Open(strings.NewReader(string(damaged)), int64(len(damaged)))
			if err == nil {
				_, err = f.Read(&u)
				var all stmtstats.Counts
				var spread stmtstats.Histogram
				byDetail, byDigest := rollup.NewDetailReader(details), rollup.NewDigestReader(content.Rows[2].Key.Digest)
				for _, other := range []error{f.AddTotals(&all, &spread), byDetail.Add(f), byDigest.Read(f, func(*rollup.Detail) {})} {
					var bad *rollup.FormatError
					if other != nil && !errors.As(other, &bad) {
						t.Fatalf("byte %d by %d: %v", i, change, other)
					}
				}
				byDetail.Close()
				byDigest.Close()
				rollup.Release(details)
				for _, d := range details {
					*d = rollup.Detail{Print: d.Print}
				}
			}
			var bad *rollup.FormatError
			if err != nil && !errors.As(err, &bad) {
				t.Fatalf("byte %d by %d: %v", i, change, err)
			}
			if err != nil {
				refused++
			}
		}
	}
	if refused < len(text) {
		t.Errorf("%d of %d changes are refused", refused, 3*len(text))
	}
}
