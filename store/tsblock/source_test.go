package tsblock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

// TestSources checks the contract of Source for every source.
func TestSources(t *testing.T) {
	dir := t.TempDir()
	content, random := make([]byte, 100_000), testseed.Rand(t)
	for i := range content {
		content[i] = byte(random.Uint32())
	}
	const name = "tenant/block/chunks/000001"
	writeFile(t, filepath.Join(dir, name), content)
	writeFile(t, filepath.Join(dir, "empty"), nil)
	bucket, err := filesystem.NewBucket(dir)
	if err != nil {
		t.Fatal(err)
	}
	for kind, s := range map[string]Source{
		"directory": Dir(dir),
		"bucket":    Bucket[objstore.ObjectAttributes](bucket),
		"in pieces": Bucket[objstore.ObjectAttributes](pieces{bucket}),
	} {
		t.Run(kind, func(t *testing.T) {
			for _, c := range []struct {
				off int64
				len int
			}{{0, 0}, {0, 1}, {0, 100_000}, {0, 100_001}, {99_999, 1}, {99_999, 2}, {100_000, 1}, {200_000, 10}, {5000, 70_000}} {
				dst := make([]byte, c.len)
				n, err := s.ReadRange(t.Context(), name, c.off, dst)
				want := content[min(c.off, 100_000):min(c.off+int64(c.len), 100_000)]
				if !bytes.Equal(dst[:n], want) {
					t.Errorf("%d bytes at %d: got %d, want %d", c.len, c.off, n, len(want))
				}
				if full := n == c.len; full && err != nil || !full && !errors.Is(err, ErrObjectEnd) {
					t.Errorf("%d bytes at %d: %d and %v", c.len, c.off, n, err)
				}
			}
			if n, err := s.Size(t.Context(), name); n != 100_000 || err != nil {
				t.Errorf("size: %d, %v", n, err)
			}
			if n, err := s.ReadRange(t.Context(), "empty", 0, make([]byte, 5)); n != 0 || !errors.Is(err, ErrObjectEnd) {
				t.Errorf("an empty object: %d, %v", n, err)
			}
			if _, err := s.ReadRange(t.Context(), "none", 0, make([]byte, 5)); err == nil || errors.Is(err, ErrObjectEnd) {
				t.Errorf("no object: %v", err)
			}
			if _, err := s.Size(t.Context(), "none"); err == nil {
				t.Error("an object that is not there has a size")
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := s.ReadRange(ctx, name, 0, make([]byte, 5)); !errors.Is(err, context.Canceled) {
				t.Errorf("ended context: %v", err)
			}
		})
	}
}

func writeFile(t testing.TB, name string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// pieces is a bucket whose readers return a few bytes at a time.
type pieces struct{ objstore.Bucket }

func (p pieces) GetRange(ctx context.Context, name string, off, length int64) (io.ReadCloser, error) {
	r, err := p.Bucket.GetRange(ctx, name, off, length)
	if err != nil {
		return nil, err
	}
	return pieceReader{r}, nil
}

// errWrappedEOF is the error that a layer above a connection returns at its end.
var errWrappedEOF = fmt.Errorf("read from 10.0.0.1:9000: %w", io.EOF)

type pieceReader struct{ io.ReadCloser }

func (p pieceReader) Read(b []byte) (int, error) { return p.ReadCloser.Read(b[:min(len(b), 777)]) }

// TestBucketBrokenStream ends streams early, in ways that look like the end of the object: they are distinct
// errors.
func TestBucketBrokenStream(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	for name, c := range map[string]struct {
		stream brokenStream
		want   error
	}{
		"closing fails":    {brokenStream{closed: errInjected}, errInjected},
		"reading fails":    {brokenStream{read: errInjected}, errInjected},
		"it is cut off":    {brokenStream{read: io.ErrUnexpectedEOF}, errTruncated},
		"cut, wrapped":     {brokenStream{read: fmt.Errorf("body: %w", io.ErrUnexpectedEOF)}, errTruncated},
		"the object ends":  {brokenStream{}, ErrObjectEnd},
		"an end, wrapped":  {brokenStream{read: errWrappedEOF}, errWrappedEOF},
		"the context ends": {brokenStream{end: func() { cancel(fs.ErrClosed) }}, fs.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			use := t.Context()
			if c.stream.end != nil {
				use = ctx
			}
			n, err := Bucket[objstore.ObjectAttributes](c.stream).ReadRange(use, "x", 0, make([]byte, 10))
			if n != 3 || !errors.Is(err, c.want) {
				t.Errorf("got %d, %v; want 3, %v", n, err, c.want)
			}
			if ends := errors.Is(err, ErrObjectEnd); ends != errors.Is(c.want, ErrObjectEnd) {
				t.Errorf("%v looks like the end of the object: %t", err, ends)
			}
		})
	}
	full := brokenStream{closed: errInjected}
	if n, err := Bucket[objstore.ObjectAttributes](full).ReadRange(t.Context(), "x", 0, make([]byte, 3)); n != 3 || err != nil {
		t.Errorf("all is there: %d, %v", n, err)
	}
	if n, err := fill(idleReader{}, make([]byte, 3)); n != 0 || !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("nothing comes: %d, %v", n, err)
	}
}

// An idleReader returns neither bytes nor an error.
type idleReader struct{}

func (idleReader) Read([]byte) (int, error) { return 0, nil }

// A brokenStream is a bucket all of whose objects start with three bytes.
type brokenStream struct {
	objstore.Bucket
	read, closed error
	end          func()
}

func (s brokenStream) GetRange(context.Context, string, int64, int64) (io.ReadCloser, error) {
	return &brokenReader{brokenStream: s, left: 3}, nil
}

type brokenReader struct {
	brokenStream
	left int
}

func (r *brokenReader) Read(b []byte) (int, error) {
	n := min(len(b), r.left)
	r.left -= n
	switch {
	case n > 0:
		return n, nil
	case r.read != nil:
		return 0, r.read
	case r.end != nil:
		r.end()
	}
	return 0, io.EOF
}

func (r *brokenReader) Close() error { return r.closed }

// TestBucketWithoutSize rejects attributes without a size immediately.
func TestBucketWithoutSize(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a bucket whose objects have no size passes")
		}
	}()
	Bucket[struct{ Size string }](nil)
}

// TestDirFiles opens more files than are kept, removes some, and reads from all concurrently.
func TestDirFiles(t *testing.T) {
	dir := t.TempDir()
	const files = maxOpenFiles + 50
	name := func(i int) string { return fmt.Sprintf("f%03d", i) }
	for i := range files {
		writeFile(t, filepath.Join(dir, name(i)), []byte(name(i)))
	}
	d := Dir(dir)
	before := descriptors(t)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 7))
			for range 2000 {
				i := random.IntN(files)
				var got [4]byte
				if _, err := d.ReadRange(t.Context(), name(i), 0, got[:]); err != nil || string(got[:]) != name(i) {
					t.Errorf("%s: %q, %v", name(i), got[:], err)
				}
			}
		})
	}
	testwait.Group(t, "the readers", &all)
	if n := len(d.files); n != maxOpenFiles {
		t.Errorf("%d files are kept open, want %d", n, maxOpenFiles)
	}
	if n := descriptors(t) - before; n != maxOpenFiles {
		t.Errorf("%d descriptors are open, want %d", n, maxOpenFiles)
	}
	// A file that is removed while it is read stays readable; it is closed when others are opened.
	f, err := d.open(t.Context(), name(0))
	if err != nil {
		t.Fatal(err)
	}
	for i := range files - 1 {
		if err := os.Remove(filepath.Join(dir, name(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if n := descriptors(t) - before; n != 1 {
		t.Errorf("%d descriptors are open, want that of the file in use", n)
	}
	d.release(f)
	if n := descriptors(t) - before; n != 0 {
		t.Errorf("%d descriptors are open after the last use", n)
	}
	if _, err := d.Size(t.Context(), name(0)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a removed file: %v", err)
	}
	if _, err := d.Size(t.Context(), name(files-1)); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, name(files-1))); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "another"), nil)
	if _, err := d.Size(t.Context(), "another"); err != nil {
		t.Error(err)
	}
	if n := len(d.files); n != 1 {
		t.Errorf("%d files are kept, want the one that is not removed", n)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// descriptors returns the number of open descriptors of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func TestCostsOf(t *testing.T) {
	if got := CostsOf(struct{ Source }{}); got != (Costs{defaultGap, defaultCalls}) {
		t.Errorf("default: %+v", got)
	}
	if got := CostsOf(&faultySource{costs: Costs{Gap: -1}}); got != (Costs{0, 1}) {
		t.Errorf("bounded: %+v", got)
	}
	if got := CostsOf(Dir("")); got.Calls != 1 || got.Gap >= defaultGap {
		t.Errorf("directory: %+v", got)
	}
	if got := CostsOf(bucketWithCosts[objstore.ObjectAttributes](nil, Costs{Gap: 3, Calls: 4})); got != (Costs{3, 4}) {
		t.Errorf("bucket: %+v", got)
	}
}
