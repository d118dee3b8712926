package tsblock

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/testblock"
)

// A rawChunk is a chunk that Prometheus' reader returned.
type rawChunk struct {
	chunkenc.Chunk // never decoded
	encoding       chunkenc.Encoding
	data           []byte
}

func (c rawChunk) Encoding() chunkenc.Encoding { return c.encoding }
func (c rawChunk) Bytes() []byte               { return c.data }

// rawPool makes Prometheus' reader accept every encoding.
type rawPool struct{ chunkenc.Pool }

func (rawPool) Get(e chunkenc.Encoding, b []byte) (chunkenc.Chunk, error) {
	return rawChunk{encoding: e, data: b}, nil
}

// FuzzChunkRange reads chunks at arbitrary references of an arbitrary file, and compares with Prometheus'
// chunk reader: both return the same chunks, except that overlapping chunks, and chunks in the file's header,
// are errors here, and that the header is checked together with the first chunk only.
func FuzzChunkRange(f *testing.F) {
	made := randomChunks(rand.New(rand.NewPCG(9, 1)), 4)
	for _, s := range made.segments {
		f.Add(s, []byte{8, 0, 0, 0}, uint16(100), uint8(1))
		f.Add(s[:len(s)-1], []byte{8, 0, 0, 0, 9, 0, 0, 0}, uint16(0), uint8(2))
	}
	small := new(segmentBuilder)
	small.segment()
	var refs []byte
	for i := range 5 {
		small.add(byte(i), bytes.Repeat([]byte{byte(i)}, 3*i))
		refs = binary.LittleEndian.AppendUint32(refs, uint32(small.chunks[i].ref))
	}
	f.Add(small.segments[0], refs, uint16(0), uint8(0))
	f.Add(small.segments[0], refs[4:12], uint16(3), uint8(3))
	f.Add(append([]byte("no magic"), small.segments[0][8:]...), refs[4:8], uint16(3), uint8(3))
	f.Add(append([]byte("no magic"), small.segments[0][8:]...), refs[:4], uint16(3), uint8(3))
	f.Add(append(small.segments[0][:8:8], 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 1, 2, 3, 4, 5), []byte{8, 0, 0, 0}, uint16(1), uint8(1))
	f.Fuzz(func(t *testing.T, file, where []byte, gap uint16, calls uint8) {
		defer alloctest.Bounded(t, 64<<20)()
		var refs []uint64
		for ; len(where) >= 4 && len(refs) < 50; where = where[4:] {
			refs = append(refs, uint64(binary.LittleEndian.Uint32(where)))
		}
		if len(refs) == 0 {
			return
		}
		headed := file
		if len(file) >= segmentHeaderSize && !slices.Contains(refs, segmentHeaderSize) {
			headed = append(small.segments[0][:segmentHeaderSize:segmentHeaderSize], file[segmentHeaderSize:]...)
		}
		want, ok := readByOracle(t, headed, refs)
		e := newChunkEnv(t, &segmentBuilder{segments: [][]byte{file}}, Costs{Gap: int64(gap), Calls: int(calls % 4)})
		_, err := e.read(t.Context(), t, refs, func(d *chunkData) {
			if !ok {
				t.Fatal("read what Prometheus refuses")
			}
			for i, w := range want {
				if encoding, data := d.At(i); encoding != byte(w.encoding) || !bytes.Equal(data, w.data) {
					t.Fatalf("chunk %d at %d: encoding %d, %d bytes; want %d, %d bytes", i, refs[i], encoding, len(data), w.encoding, len(w.data))
				}
			}
		})
		if err != nil && ok && !overlaps(refs, want) {
			t.Fatalf("%v, which Prometheus reads", err)
		}
	})
}

// readByOracle reads chunks with Prometheus' reader, and returns false if it fails.
func readByOracle(t *testing.T, file []byte, refs []uint64) (all []rawChunk, ok bool) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "000001"), file)
	r, err := chunks.NewDirReader(dir, rawPool{})
	if err != nil {
		return nil, false
	}
	defer func() { _ = r.Close() }()
	for _, ref := range refs {
		c, _, err := r.ChunkOrIterable(chunks.Meta{Ref: chunks.ChunkRef(ref)})
		if err != nil {
			return nil, false
		}
		raw := c.(rawChunk)
		raw.data = bytes.Clone(raw.data) // the reader unmaps the file
		all = append(all, raw)
	}
	return all, true
}

// overlaps reports whether one of the chunks starts in the file's header or before another one ends.
func overlaps(refs []uint64, read []rawChunk) bool {
	type span struct{ from, to uint64 }
	spans := []span{{0, segmentHeaderSize}}
	for i, ref := range refs {
		// The length may be encoded in more bytes than needed, which makes the chunk longer.
		spans = append(spans, span{ref, ref + uint64(len(read[i].data)) + maxChunkLenSize + encodingSize + checksumSize})
	}
	slices.SortFunc(spans, func(a, b span) int { return int(int64(a.from) - int64(b.from)) })
	spans = slices.Compact(spans)
	for i := range len(spans) - 1 {
		if spans[i+1].from < spans[i].to {
			return true
		}
	}
	return false
}

// TestChunksAgainstPrometheus reads all chunks of a block written by Prometheus, of floats, histograms and
// stale markers, in several chunk files, with both readers.
func TestChunksAgainstPrometheus(t *testing.T) {
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(10, 1))
	o := testblock.RandomOptions{Series: 60, Samples: 1500, Step: 15_000}
	id, err := testblock.Write(dir, slices.Values(testblock.Random(random, o)), testblock.Options{
		ChunkRange: o.ChunkRange(), SegmentBytes: 64 << 10, External: map[string]string{},
	})
	if err != nil {
		t.Fatal(err)
	}
	oracle, err := chunks.NewDirReader(filepath.Join(dir, id.String(), "chunks"), rawPool{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = oracle.Close() }()
	e := newEnv(t)
	b := e.open(t, dir, id.String())
	if len(b.segmentSizes()) < 2 || b.segmentSizes()[0] == 0 {
		t.Fatalf("sizes of segments: %v, want several", b.segmentSizes())
	}
	r, done := e.reader(t, b)
	defer done()
	p, err := r.Postings(t.Context(), labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+"))
	if err != nil {
		t.Fatal(err)
	}
	series := r.Series(p, Select{MinTime: 0, MaxTime: 1 << 60, BatchBytes: 100 << 10})
	encodings, read, batches := map[byte]bool{}, int64(0), 0
	for {
		batch, err := series.Next(t.Context())
		if batch == nil {
			if !errors.Is(err, ErrNoMoreSeries) {
				t.Fatal(err)
			}
			break
		}
		batches++
		for range 2 { // dropped chunks can be loaded again
			batch.DropChunks()
			if err := r.LoadChunks(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.LoadChunks(t.Context(), batch); err != nil { // no effect
			t.Fatal(err)
		}
		for i := range batch.Len() {
			for j, c := range batch.Chunks(i) {
				want, _, err := oracle.ChunkOrIterable(chunks.Meta{Ref: chunks.ChunkRef(c.Ref)})
				if err != nil {
					t.Fatal(err)
				}
				encoding, data := batch.Data(i, j)
				if encoding != byte(want.Encoding()) || !bytes.Equal(data, want.Bytes()) {
					t.Fatalf("series %d, chunk %d of batch %d differ", i, j, batches)
				}
				encodings[encoding] = true
				read++
			}
		}
		batch.Release()
	}
	if batches < 2 || len(encodings) < 3 || read != int64(b.Meta().Stats.NumChunks) {
		t.Errorf("%d batches, encodings %v, %d of %d chunks", batches, encodings, read, b.Meta().Stats.NumChunks)
	}
	if usage := r.Stats().Chunks; usage.Items != 2*read || usage.Touched == 0 {
		t.Errorf("usage: %+v", usage)
	}
}
