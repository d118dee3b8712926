package rollup_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/testdir"
	"github.com/taredb/tare/internal/testrollup"
)

// A source returns the same random rows whenever an hour is derived.
type source struct {
	rows  int
	hours map[time.Time]*rollup.Rollup
}

func (source) Start() int64     { return testrollup.Start().UnixMilli() }
func (source) Next(int64) int64 { return math.MaxInt64 }
func (s source) Derive(_ context.Context, start time.Time, _ int64, _ rollup.Carry) (*rollup.Rollup, error) {
	if s.hours[start] == nil {
		s.hours[start] = testrollup.Random(rand.New(rand.NewPCG(uint64(start.Unix()), 1)), start, s.rows)
	}
	return s.hours[start], nil
}

// TestFullDisk derives the hours of 100,000 digests on a disk with space for half of one hour. No partial file uses up the space
// left, and no later hour is derived. Once there is space, all hours equal those derived without the failure.
func TestFullDisk(t *testing.T) {
	rows := 100_000
	if testing.Short() {
		rows = 5000
	}
	from := source{rows, make(map[time.Time]*rollup.Rollup)}
	first, err := from.Derive(t.Context(), testrollup.Start(), 0, rollup.Carry{})
	if err != nil {
		t.Fatal(err)
	}
	bytes := len(testrollup.Encode(t, first))
	disk := testdir.Small(t, 5*bytes)
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 9*bytes/2), 0o600); err != nil {
		t.Fatal(err)
	}
	free := func() uint64 {
		var st unix.Statfs_t
		if err := unix.Statfs(disk, &st); err != nil {
			t.Fatal(err)
		}
		return st.Bavail
	}
	refused := errors.New("no space by the owner")
	var space error
	log := slog.New(slog.DiscardHandler)
	store, err := rollup.OpenStore(rollup.StoreOptions{
		Dir: filepath.Join(disk, "rollups"), Labels: map[string]string{"instance": "gw-1"}, Age: 30 * 24 * time.Hour,
		Space:  func(int64) error { return space },
		Upload: func(context.Context, string, []byte) error { return nil },
		State:  localstate.Open(t.TempDir(), nil, log), Now: testrollup.Start, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	settled := testrollup.Start().Add(2 * rollup.Hour).UnixMilli()
	left := free()
	for _, want := range []error{unix.ENOSPC, refused, unix.ENOSPC} {
		if space = nil; errors.Is(want, refused) {
			space = refused
		}
		if err := store.Work(t.Context(), from, settled); !errors.Is(err, want) {
			t.Fatalf("a rollup on a full disk: %v, want %v", err, want)
		}
		if n := len(store.List(func(rollup.Name) bool { return true })); n != 0 || !store.Until().IsZero() || free() != left {
			t.Fatalf("%d rollups up to %v; %d pages are free of %d", n, store.Until(), free(), left)
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := store.Work(t.Context(), from, settled); err != nil {
		t.Fatal(err)
	}
	names := store.List(func(rollup.Name) bool { return true })
	if len(names) != 2 || store.Failures.Load() != 3 {
		t.Errorf("%v after %d failures, want two hours and 3", names, store.Failures.Load())
	}
	for _, n := range names {
		want, err := from.Derive(t.Context(), n.Begin(), 0, rollup.Carry{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(store.Dir, n.String()))
		if err != nil || string(got) != string(testrollup.Encode(t, want)) {
			t.Errorf("%v differs from what its samples are (%v)", n, err)
		}
	}
}
