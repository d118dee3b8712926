package tsblock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"path"
	"sync"
	"testing"

	"github.com/oklog/ulid/v2"

	"github.com/taredb/tare/internal/slab"
)

// A madeChunk is a chunk that a test wrote.
type madeChunk struct {
	ref      uint64
	encoding byte
	data     []byte
}

// A segmentBuilder writes chunk files according to the format's description.
type segmentBuilder struct {
	segments [][]byte
	chunks   []madeChunk
}

func (s *segmentBuilder) segment() {
	b := binary.BigEndian.AppendUint32(nil, 0x85BD40DD)
	s.segments = append(s.segments, append(b, 1, 0, 0, 0))
}

func (s *segmentBuilder) add(encoding byte, data []byte) {
	n := len(s.segments) - 1
	b := s.segments[n]
	s.chunks = append(s.chunks, madeChunk{uint64(n)<<32 | uint64(len(b)), encoding, data})
	b = binary.AppendUvarint(b, uint64(len(data)))
	at := len(b)
	b = append(append(b, encoding), data...)
	s.segments[n] = binary.BigEndian.AppendUint32(b, crc32.Checksum(b[at:], crc32.MakeTable(crc32.Castagnoli)))
}

// randomChunks writes chunks of random encodings and lengths, most of them realistic, into three segments.
func randomChunks(random *rand.Rand, n int) *segmentBuilder {
	s := new(segmentBuilder)
	for i := range n {
		if i%(n/3+1) == 0 {
			s.segment()
		}
		size := 20 + random.IntN(1200)
		switch random.IntN(40) {
		case 0:
			size = 0
		case 1:
			size = 1 + random.IntN(60_000)
		}
		data := make([]byte, size)
		for j := range data {
			data[j] = byte(random.Uint32())
		}
		s.add(byte(random.Uint32()), data)
	}
	return s
}

func (s *segmentBuilder) refs() []uint64 {
	refs := make([]uint64, len(s.chunks))
	for i, c := range s.chunks {
		refs[i] = c.ref
	}
	return refs
}

// A faultySource has objects in memory. It counts its calls; call number failAt fails in the way of fail.
type faultySource struct {
	objects map[string][]byte
	costs   Costs

	mu     sync.Mutex
	calls  int
	failAt int // 0: none
	fail   func(ctx context.Context, n int) (int, error)
}

func (s *faultySource) Costs() Costs { return s.costs }

func (s *faultySource) ReadRange(ctx context.Context, name string, off int64, dst []byte) (int, error) {
	s.mu.Lock()
	s.calls++
	fails := s.calls == s.failAt
	s.mu.Unlock()
	if fails {
		return s.fail(ctx, len(dst))
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	object, ok := s.objects[name]
	if !ok {
		return 0, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	n := copy(dst, object[min(off, int64(len(object))):])
	if n < len(dst) {
		return n, ErrObjectEnd
	}
	return n, nil
}

func (s *faultySource) Size(_ context.Context, name string) (int64, error) {
	return int64(len(s.objects[name])), nil
}

var errInjected = errors.New("the network is down")

// A chunkEnv is a block of chunk files in memory, with pool, gate and quota.
type chunkEnv struct {
	source *faultySource
	block  *Block
	pool   *slab.Pool
	gate   *slab.Gate
}

const testPrefix = "tenant/01ARZ3NDEKTSV4RRFFQ69G5FAV"

func newChunkEnv(t testing.TB, s *segmentBuilder, costs Costs) *chunkEnv {
	t.Helper()
	source := &faultySource{objects: map[string][]byte{}, costs: costs}
	for i, segment := range s.segments {
		source.objects[fmt.Sprintf("%s/chunks/%06d", testPrefix, i+1)] = segment
	}
	return newChunkEnvOf(t, source, source)
}

func newChunkEnvOf(t testing.TB, own *faultySource, source Source) *chunkEnv {
	t.Helper()
	e := &chunkEnv{source: own, pool: slab.NewPool(slab.PoolOptions{}), gate: slab.NewGate(slab.GateOptions{Bytes: 1 << 30, PerQuery: 1 << 30})}
	meta := &Meta{ULID: ulid.MustParse(path.Base(testPrefix)), Version: 1}
	b, err := New(source, testPrefix, meta, Options{
		Cache: NewCache(1 << 20), Pool: e.pool, Entries: NewEntries(slab.EntriesOptions{}), LocalDir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	e.block = b
	t.Cleanup(b.Close)
	return e
}

// read reads chunks in a separate query, calls use with them, and checks that the query has released all its
// bytes.
func (e *chunkEnv) read(ctx context.Context, t testing.TB, refs []uint64, use func(*chunkData)) (Usage, error) {
	t.Helper()
	q, err := e.gate.Admit(context.WithoutCancel(ctx))
	if err != nil {
		t.Fatal(err)
	}
	var d chunkData
	usage, err := e.block.readChunks(ctx, q, refs, &d)
	if err != nil && (q.Used() != 0 || d.Len() != 0 || e.pool.Stats().OutBytes != 0) {
		t.Errorf("after %v: %d bytes reserved, %d chunks, %d bytes of slabs out", err, q.Used(), d.Len(), e.pool.Stats().OutBytes)
	}
	if err == nil {
		if q.Used() != e.pool.Stats().OutBytes || q.Used() != d.Size() {
			t.Errorf("%d bytes reserved, %d of slabs out, %d is the size", q.Used(), e.pool.Stats().OutBytes, d.Size())
		}
		use(&d)
	}
	d.Release()
	if used, out := q.Used(), e.pool.Stats().OutBytes; used != 0 || out != 0 {
		t.Errorf("at the end: %d bytes reserved, %d bytes of slabs out", used, out)
	}
	q.Close()
	return usage, err
}
