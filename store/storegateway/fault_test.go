package storegateway_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// A brokenBlock is a valid block whose files a test damages.
type brokenBlock struct {
	id    ulid.ULID
	files map[string][]byte // by name in the block's directory
	want  string            // text of all its series
}

// newBrokenBlock writes a block of several chunk files.
func newBrokenBlock(t testing.TB) *brokenBlock {
	t.Helper()
	o := testblock.RandomOptions{Series: 60, Samples: 300, Start: 1_700_000_000_000, Step: 15_000}
	dir := t.TempDir()
	id, err := testblock.Write(dir, slices.Values(testblock.Random(rand.New(rand.NewPCG(5, 6)), o)),
		testblock.Options{External: map[string]string{}, ChunkRange: o.ChunkRange(), SegmentBytes: 32 << 10})
	if err != nil {
		t.Fatal(err)
	}
	b := &brokenBlock{id: id, files: make(map[string][]byte)}
	root := filepath.Join(dir, id.String())
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err == nil {
			b.files[filepath.ToSlash(name)], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(b.files, tombstonesName) // stores do not upload it
	if len(b.files["chunks/000002"]) == 0 || len(b.files[indexName]) == 0 {
		t.Fatal("the block has no index or a single chunk file")
	}
	f := newFaultGateway(t, b.bucket(t, nil))
	if b.want, err = f.read(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(b.want) < 10_000 {
		t.Fatalf("the block reads as %d bytes", len(b.want))
	}
	return b
}

// bucket returns a bucket with the block, with some of its files replaced; nil deletes one.
func (b *brokenBlock) bucket(t testing.TB, damaged map[string][]byte) *testbucket.Failing {
	t.Helper()
	bucket := testbucket.NewFailing(objstore.NewInMemBucket())
	for name, text := range b.files {
		if other, ok := damaged[name]; ok {
			text = other
		}
		if text != nil {
			testbucket.Upload(t, bucket, b.id.String()+"/"+name, string(text))
		}
	}
	return bucket
}

// A faultGateway is a gateway with its options.
type faultGateway struct {
	*storegateway.Gateway
	options storegateway.Options
}

func newFaultGateway(t testing.TB, bucket objstore.Bucket) *faultGateway {
	t.Helper()
	o := teststore.Options(t, bucket)
	o.Layout, o.CallTimeout = blocksync.LayoutThanos, 10*time.Second
	f := &faultGateway{teststore.New(t, o), o}
	if err := f.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	return f
}

// check reports resources that a query did not release.
func (f *faultGateway) check() error {
	if s := f.options.Gate.Stats(); s.Held != 0 || s.Running != 0 || s.Misused != 0 {
		return fmt.Errorf("the gate is left with %+v", s)
	}
	if out := f.options.Pool.Stats().OutBytes + f.options.Entries.Stats().OutBytes; out != 0 {
		return fmt.Errorf("%d bytes of slabs are left out", out)
	}
	for _, b := range f.Blocks() {
		if b.Queries != 0 {
			return fmt.Errorf("block %s has %d handles left", b.ID, b.Queries)
		}
	}
	return nil
}

var errLeft = errors.New("something is left")

// read reads all series with all chunks.
func (f *faultGateway) read(ctx context.Context) (string, error) {
	text, err := f.readSeries(ctx, func() {})
	if left := f.check(); left != nil {
		return "", fmt.Errorf("%w: %w", errLeft, left)
	}
	return text, err
}

// readSeries calls after when it has read the first series.
func (f *faultGateway) readSeries(ctx context.Context, after func()) (string, error) {
	q, err := f.Admit(ctx, storegateway.Admission{})
	if err != nil {
		return "", err
	}
	defer q.Close()
	set, err := q.Select(ctx, storegateway.Request{
		MinTime: 0, MaxTime: 1 << 60,
		Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "__name__", "metric_[0-5].*")},
	})
	if err != nil {
		return "", err
	}
	defer set.Close()
	var b bytes.Buffer
	for set.Next() {
		s := set.At()
		for _, l := range s.Labels {
			fmt.Fprintf(&b, "%q=%q ", l.Name, l.Value)
		}
		for _, c := range s.Chunks {
			fmt.Fprintf(&b, "%d-%d/%d:%x ", c.MinTime, c.MaxTime, c.Encoding, c.Data)
		}
		b.WriteByte('\n')
		if after != nil {
			after()
			after = nil
		}
	}
	return b.String(), set.Err()
}

// mustName fails the test unless an error names the block and, for damage in a file, the position.
func mustName(t *testing.T, what string, id ulid.ULID, err error) {
	t.Helper()
	if errors.Is(err, errLeft) || !strings.Contains(err.Error(), id.String()) {
		t.Errorf("%s: the error does not name the block: %v", what, err)
	}
	if c, ok := errors.AsType[*tsblock.CorruptError](err); ok && (c.File == "" || c.Offset < 0) {
		t.Errorf("%s: the error does not say where: %v", what, err)
	}
}

// damageable are the files to damage, the index twice as often.
var damageable = [...]string{indexName, indexName, "chunks/000001", "chunks/000002"}

// damage returns a damaged file and describes the damage.
func (b *brokenBlock) damage(file, how uint8, at uint32) (name string, text []byte, what string) {
	name = damageable[int(file)%len(damageable)]
	text = slices.Clone(b.files[name])
	i := int(at) % len(text)
	edge := min(64, len(text)) // header and table of contents, which locate everything else
	switch bit := how % 8; how / 8 % 5 {
	case 0:
		return name, text[:i], fmt.Sprintf("%s cut to %d bytes", name, i)
	case 1:
		clear(text[i:min(i+64, len(text))])
		return name, text, fmt.Sprintf("%s with 64 zeros at %d", name, i)
	case 2:
		i %= edge
		text[i] ^= 1 << bit
	case 3:
		i = len(text) - 1 - i%edge
		text[i] ^= 1 << bit
	case 4:
		text[i] ^= 1 << bit
	}
	return name, text, fmt.Sprintf("%s with bit %d at %d flipped", name, how%8, i)
}

// readDamaged reads the damaged block: the result is the original text, or an error that locates the damage.
// It reports whether it was an error.
func (b *brokenBlock) readDamaged(t *testing.T, file, how uint8, at uint32) bool {
	t.Helper()
	name, text, what := b.damage(file, how, at)
	damaged := map[string][]byte{name: text, metaName: withoutSizes(t, b.files[metaName])}
	got, err := newFaultGateway(t, b.bucket(t, damaged)).read(t.Context())
	if err == nil {
		if got != b.want {
			t.Errorf("%s: wrong samples or series, and no error", what)
		}
		return false
	}
	mustName(t, what, b.id, err)
	if _, ok := errors.AsType[*tsblock.CorruptError](err); !ok {
		t.Errorf("%s: not the error of a damaged file: %v", what, err)
	}
	return true
}

// damageTrials is the number of damages of TestDamagedFiles; make e2e runs thousands.
var damageTrials = flag.Int("damage-trials", 60, "damages that TestDamagedFiles does to a block")

func TestDamagedFiles(t *testing.T) {
	b := newBrokenBlock(t)
	r := rand.New(rand.NewPCG(7, 8))
	tries := *damageTrials
	hurt := 0
	for range tries {
		if b.readDamaged(t, uint8(r.Uint32()), uint8(r.Uint32()), r.Uint32()) {
			hurt++
		}
	}
	if hurt < tries/2 {
		t.Errorf("only %d of %d damages hurt: the test reads too little", hurt, tries)
	}
}

func FuzzDamagedFiles(f *testing.F) {
	b := newBrokenBlock(f)
	for how := range uint8(5) {
		f.Add(uint8(0), 8*how, uint32(how)*997)
		f.Add(uint8(2), 8*how+5, uint32(how)*97)
	}
	f.Fuzz(func(t *testing.T, file, how uint8, at uint32) {
		defer alloctest.Bounded(t, 256<<20)()
		b.readDamaged(t, file, how, at)
	})
}

// withoutSizes removes the sizes of files from meta.json, by which a sync would detect the damage.
func withoutSizes(t *testing.T, meta []byte) []byte {
	t.Helper()
	m := bytes.ReplaceAll(meta, []byte(`"size_bytes"`), []byte(`"bytes"`))
	if _, err := tsblock.ParseMeta(m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMissingFiles deletes files after the sync has listed them.
func TestMissingFiles(t *testing.T) {
	b := newBrokenBlock(t)
	for _, name := range []string{indexName, "chunks/000001", "chunks/000002"} {
		bucket := b.bucket(t, nil)
		f := newFaultGateway(t, bucket)
		if err := bucket.Delete(t.Context(), b.id.String()+"/"+name); err != nil {
			t.Fatal(err)
		}
		_, err := f.read(t.Context())
		if err == nil {
			t.Errorf("without %s: no error", name)
			continue
		}
		mustName(t, "without "+name, b.id, err)
		if !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: the error does not name the file: %v", name, err)
		}
	}
}

// TestFailingCalls fails every bucket call of a query, in each way, once and permanently.
func TestFailingCalls(t *testing.T) {
	b := newBrokenBlock(t)
	for _, kind := range []testbucket.Failure{testbucket.FailError, testbucket.FailBroken, testbucket.FailShort, testbucket.FailHang, testbucket.FailStall, testbucket.FailDenied, testbucket.FailMissing} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for call := 0; ; call++ {
					bucket := b.bucket(t, nil)
					f := newFaultGateway(t, bucket)
					bucket.FailCall(call, testbucket.FailRule{Times: 1, How: kind})
					got, err := f.read(t.Context())
					fired := bucket.Fired.Load()
					if err == nil && got != b.want {
						t.Fatalf("call %d: wrong samples and no error", call)
					}
					// Transient failures are retried; the end of an object is final.
					passes := kind != testbucket.FailShort && kind != testbucket.FailDenied && kind != testbucket.FailMissing
					if err != nil && passes {
						t.Errorf("call %d: a failure that passes ends the query: %v", call, err)
					}
					if err != nil {
						mustName(t, fmt.Sprintf("call %d", call), b.id, err)
					}
					if fired == 0 {
						if call < 3 {
							t.Fatalf("a query makes %d calls", call)
						}
						t.Logf("%d calls", call)
						break
					}

				}

				bucket := b.bucket(t, nil)
				f := newFaultGateway(t, bucket)
				bucket.Fail(testbucket.FailRule{Times: -1, How: kind})
				_, err := f.read(t.Context())
				if err == nil {
					t.Fatal("all calls fail and the query does not")
				}
				mustName(t, "all calls", b.id, err)
			})
		})
	}
}

// TestCancelledQueries cancels queries at any point: they release all resources.
func TestCancelledQueries(t *testing.T) {
	b := newBrokenBlock(t)
	synctest.Test(t, func(t *testing.T) {
		for call := 0; ; call++ {
			bucket := b.bucket(t, nil)
			f := newFaultGateway(t, bucket)
			bucket.FailCall(call, testbucket.FailRule{Times: 1, How: testbucket.FailHang})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := f.read(ctx)
			cancel()
			if bucket.Fired.Load() == 0 {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("call %d: %v", call, err)
			}
		}
	})
}

// TestBlockDeletedUnderAQuery deletes a block while a query reads it: the query succeeds or names the block,
// and later queries do not use it.
func TestBlockDeletedUnderAQuery(t *testing.T) {
	b := newBrokenBlock(t)
	bucket := b.bucket(t, nil)
	other := newBrokenBlock(t)
	for name, text := range other.files {
		testbucket.Upload(t, bucket, other.id.String()+"/"+name, string(text))
	}
	f := newFaultGateway(t, bucket)
	got, err := f.readSeries(t.Context(), func() {
		for name := range b.files {
			if err := bucket.Delete(t.Context(), b.id.String()+"/"+name); err != nil {
				t.Error(err)
			}
		}
		if err := f.Sync(t.Context()); err != nil {
			t.Error(err)
		}
	})
	switch {
	case err != nil:
		mustName(t, "deleted under the query", b.id, err)
	case got != other.want: // the blocks have the same contents
		t.Error("deleted under the query: wrong samples or series, and no error")
	}
	if err := f.check(); err != nil {
		t.Error(err)
	}
	got, err = f.read(t.Context())
	if err != nil || got != other.want {
		t.Errorf("after a block was deleted: %v, as the other block reads: %t", err, got == other.want)
	}
}
