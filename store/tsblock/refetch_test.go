package tsblock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/testwait"
)

// A noisySource flips one bit of the bytes that it reads, or ends early, in some calls.
type noisySource struct {
	*memorySource
	calls int
	noise func(call int, dst []byte, n int, err error) (int, error)
}

func (s *noisySource) ReadRange(ctx context.Context, name string, off int64, dst []byte) (int, error) {
	n, err := s.memorySource.ReadRange(ctx, name, off, dst)
	s.calls++
	if s.noise == nil || !strings.HasSuffix(name, "/index") {
		return n, err
	}
	return s.noise(s.calls, dst, n, err)
}

// Costs makes readers issue one call at a time.
func (*noisySource) Costs() Costs { return Costs{Gap: 1 << 10, Calls: 1} }

// A refetchTest is a block whose reads are compared with those of the undamaged one.
type refetchTest struct {
	env    *testEnv
	name   string
	source *memorySource
	quota  *slab.Quota
	want   any
}

type allReads struct {
	Rows          []row
	Names, Values []string
}

func newRefetchTest(t *testing.T) *refetchTest {
	dir, name := writeIndex(t, randomSeries(rand.New(rand.NewPCG(15, 6)), 400))
	r := &refetchTest{env: newEnv(t), name: name, source: readSource(t, dir, name)}
	q, err := r.env.gate.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	r.quota = q
	if r.want, err = r.read(t, r.open(t, r.source, t.TempDir())); err != nil {
		t.Fatal(err)
	}
	if n := len(r.want.(allReads).Rows); n < 20 {
		t.Fatalf("only %d series are read", n)
	}
	return r
}

func (r *refetchTest) open(t *testing.T, s Source, local string) *Block {
	t.Helper()
	o := r.env.options
	o.LocalDir = local
	b, err := openBlock(t.Context(), s, r.name, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func (r *refetchTest) read(t *testing.T, b *Block) (any, error) {
	t.Helper()
	rows, names, values, err := readEverything(t.Context(), b, r.quota)
	return allReads{rows, names, values}, err
}

// TestDamagedOnTheWay damages each read of an index once. No query fails, and no damaged page stays in the
// cache.
func TestDamagedOnTheWay(t *testing.T) {
	r := newRefetchTest(t)
	count := &noisySource{memorySource: r.source}
	if _, err := r.read(t, r.open(t, count, t.TempDir())); err != nil {
		t.Fatal(err)
	}
	if count.calls < 6 {
		t.Fatalf("only %d reads", count.calls)
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for call := 1; call <= count.calls; call++ {
		for _, way := range []string{"a bit", "the end"} {
			s := &noisySource{memorySource: r.source, noise: func(n int, dst []byte, k int, err error) (int, error) {
				switch {
				case n != call || k == 0:
					return k, err
				case way == "a bit":
					dst[rng.IntN(k)] ^= 1 << rng.IntN(8)
					return k, err
				default:
					return k / 2, ErrObjectEnd
				}
			}}
			b := r.open(t, s, t.TempDir())
			for range 2 { // the second time from the cache
				got, err := r.read(t, b)
				if err != nil {
					// Bytes decoded before their checksum is known (the head of an index) are not read twice.
					var corrupt *CorruptError
					if !errors.As(err, &corrupt) {
						t.Fatalf("call %d, %s: %v", call, way, err)
					}
					t.Errorf("call %d, %s: not fetched again: %v", call, way, err)
					continue
				}
				if d := cmp.Diff(r.want, got); d != "" {
					t.Fatalf("call %d, %s: another result and no error:\n%s", call, way, d)
				}
			}
		}
	}
}

// TestLengthDamagedOnTheWay flips a third of the bits of each read of four bytes: the lengths of the sections of an index, and of
// its last postings list, which no checksum protects. A damaged length may fail one query, and never stays in the
// index header.
func TestLengthDamagedOnTheWay(t *testing.T) {
	r := newRefetchTest(t)
	query := func(b *Block) ([]row, error) {
		reader := b.Reader(r.quota)
		defer reader.Close()
		p, err := reader.Postings(t.Context(), labels.MustNewMatcher(labels.MatchRegexp, "unique", ".+")) // all lists of the last name
		if err != nil {
			return nil, err
		}
		return readRows(t.Context(), reader.Series(p, Select{MinTime: math.MinInt64, MaxTime: math.MaxInt64}))
	}
	lengths, damaged := 0, 0
	count := &noisySource{memorySource: r.source, noise: func(_ int, dst []byte, n int, err error) (int, error) {
		if len(dst) == 4 {
			lengths++
		}
		return n, err
	}}
	want, err := query(r.open(t, count, t.TempDir()))
	if err != nil || len(want) < 100 || lengths < 3 {
		t.Fatalf("%d series, %d lengths: %v", len(want), lengths, err)
	}
	for damage := 1; damage <= lengths; damage++ {
		for bit := damage % 3; bit < 32; bit += 3 {
			read := 0
			s := &noisySource{memorySource: r.source, noise: func(_ int, dst []byte, n int, err error) (int, error) {
				if len(dst) == 4 {
					if read++; read == damage {
						dst[bit/8] ^= 1 << (bit % 8)
						damaged++
					}
				}
				return n, err
			}}
			b := r.open(t, s, t.TempDir())
			if _, err := query(b); err != nil && !isCorrupt(err) {
				t.Errorf("length %d, bit %d: %v", damage, bit, err)
			}
			got, err := query(b)
			if err != nil {
				t.Errorf("length %d, bit %d: the second query: %v", damage, bit, err)
			} else if d := cmp.Diff(want, got); d != "" {
				t.Errorf("length %d, bit %d (- undamaged, + damaged)\n%s", damage, bit, d)
			}
		}
	}
	if damaged < 10*lengths {
		t.Errorf("only %d reads of %d lengths were damaged", damaged, lengths)
	}
}

// TestDamagedForAWhile damages the index during one query: the damage is reported, and the next query
// succeeds.
func TestDamagedForAWhile(t *testing.T) {
	r := newRefetchTest(t)
	local := t.TempDir()
	if _, err := r.read(t, r.open(t, r.source, local)); err != nil { // creates the local files
		t.Fatal(err)
	}
	broken := true
	s := &noisySource{memorySource: r.source, noise: func(_ int, dst []byte, n int, err error) (int, error) {
		if broken {
			for i := 0; i < n; i += 7 {
				dst[i] ^= 1
			}
		}
		return n, err
	}}
	b := r.open(t, s, local)
	if _, err := r.read(t, b); !isCorrupt(err) {
		t.Fatalf("the error is %v, want a CorruptError", err)
	}
	broken = false
	got, err := r.read(t, b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r.want, got); d != "" {
		t.Fatal(d)
	}
}

// TestForeignEnd fails reads with io.EOF, bare and wrapped, as layers over connections do: it never counts as
// the end of the series, and no incomplete local file is left.
func TestForeignEnd(t *testing.T) {
	r := newRefetchTest(t)
	for _, end := range []error{io.EOF, fmt.Errorf("read body: %w", io.EOF), io.ErrUnexpectedEOF} {
		for call := 1; call <= 12; call++ {
			s := &noisySource{memorySource: r.source, noise: func(n int, _ []byte, k int, err error) (int, error) {
				if n == call {
					return k / 2, end
				}
				return k, err
			}}
			local := t.TempDir()
			b := r.open(t, s, local)
			if got, err := r.read(t, b); err == nil {
				if d := cmp.Diff(r.want, got); d != "" {
					t.Fatalf("%v in call %d: another result and no error:\n%s", end, call, d)
				}
			}
			s.noise = nil
			got, err := r.read(t, b)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(r.want, got); d != "" {
				t.Fatalf("after %v in call %d: %s", end, call, d)
			}
		}
	}
}

// TestLocalFileDamagedInUse truncates, changes and removes local files while their block is in use. The query
// that finds the damage has them rebuilt.
func TestLocalFileDamagedInUse(t *testing.T) {
	r := newRefetchTest(t)
	rng := rand.New(rand.NewPCG(8, 8))
	local := t.TempDir()
	b := r.open(t, r.source, local)
	if _, err := r.read(t, b); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		file := filepath.Join(local, r.name, []string{headerName, hashesName}[i%2])
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		switch i / 2 % 3 {
		case 0:
			err = os.Truncate(file, int64(rng.IntN(len(text))))
		case 1:
			for j := 0; j < len(text); j += 64 {
				text[j] ^= 1
			}
			err = os.WriteFile(file, text, 0o644)
		default:
			err = os.Remove(file)
		}
		if err != nil {
			t.Fatal(err)
		}
		r.env.options.Cache.forget(b.number) // as if other blocks had evicted them
		got, err := r.read(t, b)
		if err != nil {
			t.Fatalf("trial %d: %v", i, err)
		}
		if d := cmp.Diff(r.want, got); d != "" {
			t.Fatalf("trial %d: %s", i, d)
		}
		if i/2%3 > 0 { // something was missing or wrong in every page
			if _, err := os.Stat(file); err != nil {
				t.Fatalf("trial %d: the file was not built again: %v", i, err)
			}
		}
	}
}

// A gatedSource blocks reads of the index until the gate is closed.
type gatedSource struct {
	*memorySource
	reached chan struct{} // receives a value for each blocked read, if there is room
	gate    chan struct{}
}

func (s *gatedSource) ReadRange(ctx context.Context, name string, off int64, dst []byte) (int, error) {
	if strings.HasSuffix(name, "/index") {
		select {
		case s.reached <- struct{}{}:
		default:
		}
		<-s.gate
	}
	return s.memorySource.ReadRange(ctx, name, off, dst)
}

// TestLocalFileBuiltForAll lets two readers find a local file missing. The second waits while the first
// builds it.
func TestLocalFileBuiltForAll(t *testing.T) {
	r := newRefetchTest(t)
	source := &gatedSource{memorySource: r.source, reached: make(chan struct{}, 1), gate: make(chan struct{})}
	close(source.gate)
	b := r.open(t, source, t.TempDir())
	if _, err := r.read(t, b); err != nil {
		t.Fatal(err)
	}
	file := b.header.now.Load().file
	if err := os.Remove(filepath.Join(b.dir, headerName)); err != nil {
		t.Fatal(err)
	}
	source.gate = make(chan struct{})
	source.reached = make(chan struct{}, 1)
	done := make(chan error, 2)
	rebuild := func() { done <- file.rebuild(t.Context()) }
	go rebuild()
	testwait.Receive(t, "the first read of the bucket", source.reached)
	go rebuild()
	testwait.Until(t, "both readers to wait", func() bool {
		b.header.mu.Lock()
		defer b.header.mu.Unlock()
		return len(done) > 0 || b.header.flight != nil && b.header.flight.waiters == 2
	})
	if len(done) > 0 {
		t.Fatalf("the second reader did not wait for the file: %v", testwait.Receive(t, "it", done))
	}
	close(source.gate)
	for range 2 {
		if err := testwait.Receive(t, "a reader", done); err != nil {
			t.Error(err)
		}
	}
}
