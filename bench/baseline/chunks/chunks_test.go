package chunks

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// memory is a bucket with one object.
type memory []byte

func (m memory) GetRange(_ context.Context, _ string, off, length int64) (io.ReadCloser, error) {
	off = min(off, int64(len(m)))
	return io.NopCloser(bytes.NewReader(m[off:min(off+length, int64(len(m)))])), nil
}

func segment(n int) (file memory, refs []uint64, want []Chunk) {
	random := rand.New(rand.NewPCG(1, 1))
	file = append(binary.BigEndian.AppendUint32(nil, 0x85BD40DD), 1, 0, 0, 0)
	for i := range n {
		data := make([]byte, 800+random.IntN(200))
		if i%50 == 7 {
			data = make([]byte, 40_000) // longer than guessed
		}
		for j := range data {
			data[j] = byte(random.Uint32())
		}
		refs = append(refs, uint64(len(file)))
		want = append(want, Chunk{byte(i % 3), data})
		file = binary.AppendUvarint(file, uint64(len(data)))
		at := len(file)
		file = append(append(file, byte(i%3)), data...)
		file = binary.BigEndian.AppendUint32(file, crc32.Checksum(file[at:], crc32.MakeTable(crc32.Castagnoli)))
	}
	return file, refs, want
}

func TestLoad(t *testing.T) {
	file, refs, want := segment(200)
	pool := NewBytesPool(64<<10, 1<<20)
	for _, end := range []int{8, 58, 200} { // chunk 7 and chunk 57 are longer than guessed
		r := NewReader(file, "block", pool)
		got, err := r.Load(t.Context(), refs[:end])
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range got {
			if !c.Equal(want[i].Encoding, want[i].Data) {
				t.Fatalf("chunk %d of %d differs", i, end)
			}
		}
		r.Close()
	}
	file[refs[3]+10] ^= 1
	if _, err := NewReader(file, "block", pool).Load(t.Context(), refs); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a flipped bit: %v", err)
	}
}

// BenchmarkLoad is the counterpart of tsblock's BenchmarkLoadChunks, with two objects per chunk.
func BenchmarkLoad(b *testing.B) {
	file, refs, _ := segment(5000)
	pool := NewBytesPool(64<<10, 1<<20)
	b.SetBytes(int64(len(file)))
	b.ReportAllocs()
	for b.Loop() {
		r := NewReader(file, "block", pool)
		if _, err := r.Load(b.Context(), refs); err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}
