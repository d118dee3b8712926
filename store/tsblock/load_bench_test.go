package tsblock

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/slab"
)

// likeBlockSeries writes 1,000 series of 48 chunks of 890 bytes, the chunk file of BenchmarkBlockSeries, into
// a directory. It returns a block of it and the references of 282 series, which a query of that benchmark
// reads on average.
func likeBlockSeries(t testing.TB) (*chunkEnv, []uint64, int64) {
	s := new(segmentBuilder)
	s.segment()
	data := make([]byte, 880)
	for range 48_000 {
		s.add(1, data)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, testPrefix, "chunks/000001"), s.segments[0])
	random := rand.New(rand.NewPCG(11, 1))
	var refs []uint64
	for _, series := range random.Perm(1000)[:282] {
		for _, c := range s.chunks[series*48 : series*48+48] {
			refs = append(refs, c.ref)
		}
	}
	d := Dir(dir)
	t.Cleanup(func() { _ = d.Close() })
	return newChunkEnvOf(t, nil, d), refs, int64(len(refs) * len(data))
}

var errChunksLost = errors.New("the chunks are not there")

func loadOnce(t testing.TB, e *chunkEnv, q *slab.Quota, refs []uint64) error {
	var d chunkData
	defer d.Release()
	if _, err := e.block.readChunks(t.Context(), q, refs, &d); err != nil {
		return err
	}
	if encoding, data := d.At(d.Len() - 1); encoding != 1 || len(data) != 880 {
		return errChunksLost
	}
	return nil
}

// TestLoadAllocs counts the allocations of a load: a constant, for 48 chunks and for 13,536.
func TestLoadAllocs(t *testing.T) {
	e, refs, _ := likeBlockSeries(t)
	q, err := e.gate.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	segment := make([]Range, 0, 300)
	sorted := []uint64{8, 900, 1800, 1 << 20}
	var d chunkData
	if _, err := e.block.readChunks(t.Context(), q, refs[:48], &d); err != nil {
		t.Fatal(err)
	}
	alloctest.Run(t, []alloctest.Case{
		{Name: "48 chunks", PerThousand: 12_000, Op: func() error { return loadOnce(t, e, q, refs[:48]) }},
		{Name: "a plan", Op: func() error {
			p, err := PlanChunks(segment, sorted, PlanOptions{})
			if err == nil && len(p.Ranges) != 2 {
				err = errChunksLost
			}
			return err
		}},
		{Name: "a chunk", Op: func() error {
			if encoding, data := d.At(47); encoding != 1 || len(data) != 880 {
				return errChunksLost
			}
			return nil
		}},
	})
	d.Release()
	got := testing.AllocsPerRun(10, func() {
		if err := loadOnce(t, e, q, refs); err != nil {
			t.Fatal(err)
		}
	})
	if got > 15 { // as many as with 48 chunks, and three for the list of more ranges
		t.Errorf("%v allocations for %d chunks", got, len(refs))
	}
}

// BenchmarkLoadChunks loads the chunks of an average query of BenchmarkBlockSeries: 282 of 1,000
// series, 48 chunks each.
func BenchmarkLoadChunks(b *testing.B) {
	e, refs, bytes := likeBlockSeries(b)
	q, err := e.gate.Admit(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("warm", func(b *testing.B) {
		b.SetBytes(bytes)
		b.ReportAllocs()
		for b.Loop() {
			if err := loadOnce(b, e, q, refs); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.SetBytes(bytes)
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if err := loadOnce(b, e, q, refs); err != nil {
					b.Error(err)
				}
			}
		})
	})
	q.Close()
}
