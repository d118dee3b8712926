package tsblock

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/crc32c"
	"github.com/taredb/tare/internal/slab"
)

// A memorySource has objects in memory, and fails on request.
type memorySource struct {
	mu      sync.Mutex
	objects map[string][]byte
	fail    func(name string, off int64) error // called before each read
	reads   int
}

func (m *memorySource) ReadRange(ctx context.Context, name string, off int64, dst []byte) (int, error) {
	m.mu.Lock()
	m.reads++
	object, ok := m.objects[name]
	fail := m.fail
	m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if fail != nil {
		if err := fail(name, off); err != nil {
			return 0, err
		}
	}
	if !ok {
		return 0, os.ErrNotExist
	}
	n := copy(dst, object[min(off, int64(len(object))):])
	if n < len(dst) {
		return n, ErrObjectEnd
	}
	return n, nil
}

func (m *memorySource) Size(_ context.Context, name string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	object, ok := m.objects[name]
	if !ok {
		return 0, os.ErrNotExist
	}
	return int64(len(object)), nil
}

// readSource reads a block's files into memory.
func readSource(t testing.TB, dir, name string) *memorySource {
	t.Helper()
	m := &memorySource{objects: map[string][]byte{}}
	for _, file := range []string{"index", MetaFile} {
		b, err := os.ReadFile(filepath.Join(dir, name, file))
		if err != nil {
			t.Fatal(err)
		}
		m.objects[name+"/"+file] = b
	}
	return m
}

// readEverything reads a block in every way.
func readEverything(ctx context.Context, b *Block, q *slab.Quota) (rows []row, names, values []string, err error) {
	r := b.Reader(q)
	defer r.Close()
	p, err := r.Postings(ctx, labels.MustNewMatcher(labels.MatchRegexp, "unique", ".*1.*"), labels.MustNewMatcher(labels.MatchNotEqual, "some", "a"))
	if err != nil {
		return nil, nil, nil, err
	}
	if rows, err = readRows(ctx, r.Series(p, Select{MinTime: math.MinInt64, MaxTime: math.MaxInt64, Shard: Shard{1, 2}})); err != nil {
		return nil, nil, nil, err
	}
	if names, err = r.LabelNames(ctx, 0, labels.MustNewMatcher(labels.MatchEqual, "some", "b")); err != nil {
		return nil, nil, nil, err
	}
	values, err = r.LabelValues(ctx, "mod", 0, labels.MustNewMatcher(labels.MatchNotEqual, "some", ""))
	return rows, names, values, err
}

// TestDamage truncates an index or flips one of its bits, anywhere, and damages a local file likewise. The
// result is correct, or an error names the block, the file and the offset.
func TestDamage(t *testing.T) {
	dir, name := writeIndex(t, randomSeries(rand.New(rand.NewPCG(5, 6)), 300))
	e := newEnv(t)
	whole := readSource(t, dir, name)
	index := whole.objects[name+"/index"]
	q, err := e.gate.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	open := func(m *memorySource, local string) *Block {
		o := e.options
		o.LocalDir = local
		b, err := openBlock(t.Context(), m, name, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b
	}
	wantRows, wantNames, wantValues, err := readEverything(t.Context(), open(whole, t.TempDir()), q)
	if err != nil {
		t.Fatal(err)
	}
	if len(wantRows) < 20 || len(wantNames) < 3 || len(wantValues) < 20 {
		t.Fatalf("too little is read: %d series, %d names, %d values", len(wantRows), len(wantNames), len(wantValues))
	}
	check := func(b *Block, what string) bool {
		t.Helper()
		rows, names, values, err := readEverything(t.Context(), b, q)
		if err != nil {
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) || corrupt.Block != name || corrupt.Reason == "" || !strings.Contains(err.Error(), name) {
				t.Fatalf("%s: the error does not say where: %v", what, err)
			}
			if corrupt.Offset < 0 || corrupt.File == "index" && corrupt.Offset > int64(len(index)) {
				t.Fatalf("%s: there is no such offset: %v", what, err)
			}
			return false
		}
		if d := cmp.Diff(wantRows, rows) + cmp.Diff(wantNames, names) + cmp.Diff(wantValues, values); d != "" {
			t.Fatalf("%s: another answer and no error:\n%s", what, d)
		}
		return true
	}
	rng := rand.New(rand.NewPCG(6, 6))
	const flips = 80 // FuzzIndex flips more
	refused := 0
	for range flips {
		at, bit := rng.IntN(len(index)), byte(1)<<rng.IntN(8)
		if rng.IntN(4) == 0 {
			at = rng.IntN(200) // head and symbols
		}
		damaged := append([]byte(nil), index...)
		damaged[at] ^= bit
		m := &memorySource{objects: map[string][]byte{name + "/index": damaged, name + "/" + MetaFile: whole.objects[name+"/"+MetaFile]}}
		if !check(open(m, t.TempDir()), "bit flipped") {
			refused++
		}
	}
	if refused < flips/2 {
		t.Errorf("of %d bit flips %d are noticed", flips, refused)
	}
	for range flips / 4 {
		m := &memorySource{objects: map[string][]byte{name + "/index": index[:rng.IntN(len(index))], name + "/" + MetaFile: whole.objects[name+"/"+MetaFile]}}
		if check(open(m, t.TempDir()), "cut short") {
			t.Error("a part of an index is as good as all of it")
		}
	}
	// The index is truncated after its header was built.
	local := t.TempDir()
	b := open(whole, local)
	if err := b.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	short := &memorySource{objects: map[string][]byte{name + "/index": index, name + "/" + MetaFile: whole.objects[name+"/"+MetaFile]}}
	c := open(short, local)
	if err := c.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	short.mu.Lock()
	short.objects[name+"/index"] = index[:100]
	short.mu.Unlock()
	if check(c, "cut short under a reader") {
		t.Error("a part of an index is as good as all of it")
	}
	// Damaged local files are rebuilt.
	for range 100 {
		file := filepath.Join(local, name, []string{headerName, hashesName}[rng.IntN(2)])
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			if err := os.RemoveAll(filepath.Join(local, name)); err != nil {
				t.Fatal(err)
			}
			check(open(whole, local), "made anew")
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if rng.IntN(3) == 0 {
			text = text[:rng.IntN(len(text))]
		} else {
			text[rng.IntN(len(text))] ^= 1 << rng.IntN(8)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		b := open(whole, local)
		if !check(b, "local file damaged") {
			t.Fatal("a damaged local file is not built again by the query that finds it")
		}
	}
}

// TestEarlierLocalFile has a header of version 1, which is wrong under right checksums: it is replaced by one of this version.
func TestEarlierLocalFile(t *testing.T) {
	dir, name := writeIndex(t, randomSeries(rand.New(rand.NewPCG(7, 8)), 300))
	e := newEnv(t)
	o := e.options
	o.LocalDir = t.TempDir()
	load := func() []byte {
		t.Helper()
		b, err := openBlock(t.Context(), readSource(t, dir, name), name, o)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if err := b.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(o.LocalDir, name, headerName))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	want := load()
	be := binary.BigEndian
	wrong := bytes.Clone(want)
	footer := wrong[len(wrong)-footerBytes:]
	sums := 4 * ((int64(be.Uint64(footer[40:])) + pageSize - 1) >> pageBits)
	memory := wrong[int64(be.Uint64(footer[40:])) : int64(len(wrong))-footerBytes-sums]
	memory[len(memory)-1] ^= 1
	be.PutUint32(footer[8:], 1)
	be.PutUint32(footer[56:], crc32c.Checksum(memory))
	be.PutUint32(footer[footerBytes-4:], crc32c.Checksum(footer[:footerBytes-4]))
	if err := os.WriteFile(filepath.Join(o.LocalDir, name, headerName), wrong, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := load(); !bytes.Equal(got, want) {
		t.Error("a header of version 1 was not rebuilt")
	}
}
