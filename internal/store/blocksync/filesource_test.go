package blocksync

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/taredb/tare/store/tsblock"
)

// A counted source counts the ranges that are read of a bucket.
type counted struct {
	tsblock.Source
	ranges int
}

func (c *counted) ReadRange(ctx context.Context, name string, off int64, dst []byte) (int, error) {
	c.ranges++
	return c.Source.ReadRange(ctx, name, off, dst)
}

// A failing bucket fails to open objects.
type failing struct {
	objstore.BucketReader
	err error
}

func (f *failing) GetRange(ctx context.Context, name string, off, length int64) (io.ReadCloser, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f.BucketReader.GetRange(ctx, name, off, length)
}

// TestFileSource reads objects of buckets whose readers are files, or not: the bytes and errors are the bucket's.
func TestFileSource(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "o"), []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := filesystem.NewBucket(dir)
	if err != nil {
		t.Fatal(err)
	}
	memory := objstore.NewInMemBucket()
	if err := memory.Upload(t.Context(), "o", strings.NewReader("0123456789")); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]objstore.Bucket{"files": files, "memory": memory} {
		bucket, ranges := &failing{BucketReader: b}, &counted{Source: tsblock.Bucket[objstore.ObjectAttributes](b)}
		s := newFileSource(bucket, ranges)
		before := s.Costs()
		read := func(object string, off int64, n int) (string, error) {
			dst := make([]byte, n)
			n, err := s.ReadRange(t.Context(), object, off, dst)
			return string(dst[:n]), err
		}
		if name == "files" {
			bucket.err = errors.New("denied")
			if _, err := read("o", 0, 1); !errors.Is(err, bucket.err) {
				t.Errorf("%s: %v", name, err)
			}
			bucket.err = nil
		}
		if _, err := read("none", 0, 1); err == nil || !b.IsObjNotFoundErr(err) {
			t.Errorf("%s: a missing object: %v", name, err)
		}
		for _, r := range []struct {
			off  int64
			n    int
			want string
		}{{0, 3, "012"}, {7, 3, "789"}, {4, 1, "4"}, {0, 10, "0123456789"}} {
			if got, err := read("o", r.off, r.n); got != r.want || err != nil {
				t.Errorf("%s: %+v: %q, %v", name, r, got, err)
			}
		}
		if size, err := s.Size(t.Context(), "o"); size != 10 || err != nil {
			t.Errorf("%s: %d bytes, %v", name, size, err)
		}
		if _, err := s.Size(t.Context(), "none"); err == nil {
			t.Errorf("%s: a missing object has a size", name)
		}
		if asFiles := name == "files"; (ranges.ranges == 0) != asFiles || s.noFiles.Load() == asFiles || (s.Costs() == before) != asFiles || !asFiles && s.Costs() != tsblock.CostsOf(ranges) {
			t.Errorf("%s: %d ranges are read, costs %+v", name, ranges.ranges, s.Costs())
		}
	}
	for name, r := range map[string]io.Reader{"no file": strings.NewReader("x"), "a closed file": closedFile(t, dir)} {
		fd, err := duplicate(r)
		if err == nil || fd != 0 || errors.Is(err, errNoFile) != (name == "no file") {
			t.Errorf("%s: %d, %v", name, fd, err)
		}
	}
}

func closedFile(t *testing.T, dir string) *os.File {
	f, err := os.Open(filepath.Join(dir, "o"))
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	return f
}

// TestSlots has blocks of as many series as are prepared, and of one more.
func TestSlots(t *testing.T) {
	s := &Syncer{smallLoads: make(chan struct{}, 1), headerLoads: make(chan struct{}, 2)}
	for n, want := range map[uint64]int{0: 1, 1: 1, preparedSeries: 1, preparedSeries + 1: 2} {
		m := &tsblock.Meta{}
		m.Stats.NumSeries = n
		if got := cap(s.loadsOf(m)); got != want {
			t.Errorf("%d series: slots of kind %d", n, got)
		}
	}
	for part, want := range map[*span][3]int64{nil: {0, 0, 0}, {from: 3, to: 9}: {3, 9, 1}} {
		from, to, restricted := (&Handle{part: part}).Part()
		if from != want[0] || to != want[1] || restricted != (want[2] == 1) {
			t.Errorf("%+v: %d to %d, restricted %t", part, from, to, restricted)
		}
	}
	for times, want := range map[[2]int64][2]int64{{5, 10}: {5, 9}, {5, 5}: {5, 5}, {5, 6}: {5, 5}} {
		from, to := (&Handle{block: &block{minTime: times[0], maxTime: times[1]}}).Times()
		if from != want[0] || to != want[1] {
			t.Errorf("%v: %d to %d", times, from, to)
		}
	}
}
