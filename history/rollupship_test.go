package history

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/testrollup"
	"github.com/taredb/tare/rollup"
)

// testStore returns a store of rollups without samples.
func testStore(t *testing.T, dir string, bucket objstore.Bucket, now time.Time) *rollup.Store {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	state := localstate.Open(t.TempDir(), nil, log)
	s := newShipper(bucket, t.TempDir(), nil, state, log)
	s.pause = time.Nanosecond
	r, err := rollup.OpenStore(rollup.StoreOptions{
		Dir: dir, Labels: map[string]string{"instance": "gw-1"}, Age: 30 * 24 * time.Hour,
		Upload: s.bytes, State: state, Now: func() time.Time { return now }, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRollupShip ships to a bucket whose every call may fail in both ways, and restarts the process in
// between: in the end all rollups are in the bucket, complete, each under one name.
func TestRollupShip(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	bucketDir, dir := t.TempDir(), t.TempDir()
	real := newRig(t, bucketDir, t.TempDir(), t.TempDir()).bucket
	want := make(map[string][]byte)
	for round := range 12 {
		flaky := &flakyBucket{Bucket: real, rand: rng, rate: 0.5}
		r := testStore(t, dir, flaky, testrollup.Start())
		if round < 4 {
			up := testrollup.Random(rng, testrollup.Start().Add(time.Duration(round)*time.Hour), 20)
			if err := r.Write(up); err != nil {
				t.Fatal(err)
			}
			want[rollup.Name{Start: up.Start.Unix(), Span: up.Span}.String()] = testrollup.Encode(t, up)
		}
		_ = r.Work(t.Context(), nil, 0) // it may fail
		for _, n := range r.List(func(rollup.Name) bool { return true }) {
			if !r.Shipped(n) {
				continue
			}
			object, err := real.Get(t.Context(), r.Object(n))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(object)
			if err := errors.Join(err, object.Close()); err != nil || !bytes.Equal(text, want[n.String()]) {
				t.Fatalf("%v is noted as shipped, and differs (%v)", n, err)
			}
		}
	}
	r := testStore(t, dir, real, testrollup.Start())
	err := r.Work(t.Context(), nil, 0)
	shipped := slices.DeleteFunc(r.List(func(rollup.Name) bool { return true }), func(n rollup.Name) bool { return !r.Shipped(n) })
	if err != nil || len(shipped) != len(want) {
		t.Errorf("%d are shipped of %d: %v", len(shipped), len(want), err)
	}
	remote, err := rollup.ListBucket(t.Context(), real, "")
	if err != nil || len(remote) != 1 || len(remote[0].Files) != len(want) || remote[0].Epoch != r.Epoch() {
		t.Errorf("the bucket has %+v (%v)", remote, err)
	}
}
