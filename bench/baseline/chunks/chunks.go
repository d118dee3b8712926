package chunks

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"slices"
	"sync"
)

const (
	maxGap    = 512 << 10
	guess     = 16_000 // bytes of a chunk of unknown size
	poolLeast = 64 << 10
	maxLength = 512 << 20
)

// A Bucket returns ranges of objects.
type Bucket interface {
	GetRange(ctx context.Context, name string, off, length int64) (io.ReadCloser, error)
}

// A Chunk is one chunk: its encoding, and its data.
type Chunk struct {
	Encoding byte
	Data     []byte
}

// An encoded is a chunk that the decoder returns.
type encoded interface {
	Encoding() byte
	Bytes() []byte
}

// A rawChunk is the encoding and the data as stored in the file.
type rawChunk []byte

func (r rawChunk) Encoding() byte { return r[0] }
func (r rawChunk) Bytes() []byte  { return r[1:] }

// A Reader loads the chunks of one query from one block.
type Reader struct {
	bucket Bucket
	prefix string // of the block's objects
	pool   *BytesPool

	mu     sync.Mutex
	blocks []*[]byte // from pool; the last of them has room
	result []*Chunk
}

// NewReader returns a reader of the block whose objects begin with prefix.
func NewReader(b Bucket, prefix string, pool *BytesPool) *Reader {
	return &Reader{bucket: b, prefix: prefix, pool: pool}
}

// Close returns the bytes to the pool.
func (r *Reader) Close() {
	for _, b := range r.blocks {
		r.pool.Put(b)
	}
	r.blocks, r.result = nil, nil
}

// A wanted is the offset of a chunk and its index among the results.
type wanted struct{ off, place int }

// Load returns the chunks with the references refs (segment << 32 | offset), valid until Close.
func (r *Reader) Load(ctx context.Context, refs []uint64) ([]*Chunk, error) {
	r.result = make([]*Chunk, len(refs))
	segments := map[int][]wanted{}
	for i, ref := range refs {
		s := int(ref >> 32)
		segments[s] = append(segments[s], wanted{int(uint32(ref)), i})
	}
	var all sync.WaitGroup
	var failure error
	var once sync.Mutex
	for s, chunks := range segments {
		slices.SortFunc(chunks, func(a, b wanted) int { return a.off - b.off })
		for first := 0; first < len(chunks); {
			end := first + 1
			for end < len(chunks) && chunks[end].off-chunks[end-1].off <= guess+maxGap {
				end++
			}
			part := chunks[first:end]
			first = end
			all.Go(func() {
				if err := r.loadRange(ctx, s, part); err != nil {
					once.Lock()
					failure = errors.Join(failure, err)
					once.Unlock()
				}
			})
		}
	}
	all.Wait()
	if failure != nil {
		return nil, failure
	}
	return r.result, nil
}

func (r *Reader) loadRange(ctx context.Context, segment int, part []wanted) error {
	name := fmt.Sprintf("%s/chunks/%06d", r.prefix, segment+1)
	from := part[0].off
	to := part[len(part)-1].off + guess
	object, err := r.bucket.GetRange(ctx, name, int64(from), int64(to-from))
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	defer object.Close()
	in := bufio.NewReaderSize(object, guess)
	at := from
	var buffer []byte
	for i, w := range part {
		n, err := in.Discard(w.off - at)
		at += n
		if err != nil {
			return fmt.Errorf("read %s at %d: %w", name, w.off, err)
		}
		size, err := binary.ReadUvarint(in)
		if err != nil {
			return fmt.Errorf("read %s at %d: %w", name, w.off, err)
		}
		if size > maxLength {
			return fmt.Errorf("read %s at %d: a chunk of %d bytes", name, w.off, size)
		}
		at += (bits.Len64(size|1) + 6) / 7
		buffer = slices.Grow(buffer[:0], int(1+size+4))
		b := buffer[:1+size+4]
		n, err = io.ReadFull(in, b)
		at += n
		if errors.Is(err, io.ErrUnexpectedEOF) && i == len(part)-1 {
			err = r.readRest(ctx, name, int64(at), b[n:])
		}
		if err != nil {
			return fmt.Errorf("read %s at %d: %w", name, w.off, err)
		}
		body, sum := b[:1+size], b[1+size:]
		if crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(sum) {
			return fmt.Errorf("read %s at %d: checksum mismatch", name, w.off)
		}
		r.populate(w.place, rawChunk(body))
	}
	return nil
}

// readRest reads the rest of a range's last chunk.
func (r *Reader) readRest(ctx context.Context, name string, off int64, dst []byte) error {
	object, err := r.bucket.GetRange(ctx, name, off, int64(len(dst)))
	if err != nil {
		return err
	}
	defer object.Close()
	_, err = io.ReadFull(object, dst)
	return err
}

// populate stores the result for a chunk.
func (r *Reader) populate(place int, c encoded) {
	r.result[place] = &Chunk{Encoding: c.Encoding(), Data: r.save(c.Bytes())}
}

// save copies bytes into a slice of the pool.
func (r *Reader) save(b []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.blocks); n == 0 || cap(*r.blocks[n-1])-len(*r.blocks[n-1]) < len(b) {
		r.blocks = append(r.blocks, r.pool.Get(max(len(b), poolLeast)))
	}
	last := r.blocks[len(r.blocks)-1]
	at := len(*last)
	*last = append(*last, b...)
	return (*last)[at:len(*last):len(*last)]
}

// Equal reports whether the chunk has this encoding and data.
func (c *Chunk) Equal(encoding byte, data []byte) bool {
	return c.Encoding == encoding && bytes.Equal(c.Data, data)
}
