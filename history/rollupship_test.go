package history_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/testrollup"
)

// TestRollupShip ships to a bucket whose every call may fail in both ways, and restarts the process in
// between: in the end all rollups are in the bucket, complete, each under one name.
func TestRollupShip(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	rig := newRig(t, t.TempDir(), t.TempDir())
	real := rig.bucket
	open := func(bucket objstore.Bucket) (*history.Archive, *rollup.Store) {
		o := rig.options(newModel())
		o.Bucket, o.Now, o.RollupAge, o.ReserveBytes = bucket, testrollup.Start, 30*24*time.Hour, 1<<20
		archive, err := history.OpenArchive(o)
		if err != nil {
			t.Fatal(err)
		}
		archive.LimitCalls(time.Nanosecond, 0)
		return archive, archive.Instances()[0].Rollups
	}
	want := make(map[string][]byte)
	for round := range 12 {
		archive, r := open(&flakyBucket{Bucket: real, rand: rng, rate: 0.5})
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
		if err := archive.Close(); err != nil {
			t.Fatal(err)
		}
	}
	archive, r := open(real)
	defer func() { _ = archive.Close() }()
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
