package tsblock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/taredb/tare/internal/panics"
)

// A section is read by sectionPiece bytes per call, and from a source that allows concurrent calls by up to
// maxAhead pieces together: building eight headers concurrently then takes some 40 MiB.
const (
	sectionPiece = 1 << 20
	maxAhead     = 4
)

// wholeIndex is the size up to which an index is read by one call to build its header, instead of one for each part.
const wholeIndex = 256 << 10

// readWhole reads a small index, for the calls of readIndex until release.
func (b *Block) readWhole(ctx context.Context, size int64) (release func(), err error) {
	whole := make([]byte, size)
	if err := b.readIndex(ctx, whole, 0); err != nil {
		return nil, err
	}
	b.whole.Store(&whole)
	return func() { b.whole.Store(nil) }, nil
}

// readIndex fills dst from the block's index. An index that ends early is a CorruptError.
func (b *Block) readIndex(ctx context.Context, dst []byte, off int64) error {
	if whole := b.whole.Load(); whole != nil && off+int64(len(dst)) <= int64(len(*whole)) {
		copy(dst, (*whole)[off:])
		return nil
	}
	n, err := b.source.ReadRange(ctx, b.object("index"), off, dst)
	switch {
	case n == len(dst):
		return nil
	case err == nil || errors.Is(err, ErrObjectEnd):
		return b.corrupt("index", off+int64(n), endsEarly)
	default:
		return fmt.Errorf("block %s: read index at %d: %w", b.prefix, off, err)
	}
}

// readPieces fills dst as readIndex does, with one concurrent call per piece. The first error cancels the
// other calls, and is returned when all have finished.
func (b *Block) readPieces(ctx context.Context, dst []byte, off int64) error {
	if len(dst) <= sectionPiece {
		return b.readIndex(ctx, dst, off)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		calls   sync.WaitGroup
		once    sync.Once
		failure error
	)
	for at := 0; at < len(dst); at += sectionPiece {
		piece := dst[at:min(at+sectionPiece, len(dst))]
		calls.Go(func() {
			if err := panics.Guard(func() error { return b.readIndex(ctx, piece, off+int64(at)) }); err != nil {
				once.Do(func() { failure = err; cancel() })
			}
		})
	}
	calls.Wait()
	return failure
}

// A section is a part of an index that is read once, sequentially: four bytes of length, that many bytes, and
// their CRC32C. It is read in pieces, and the length is accepted only up to the end of the index.
type section struct {
	block    *Block
	pos, end int64  // range that is not in rest yet
	ahead    int64  // bytes that are read together
	rest     []byte // bytes read but not consumed
	buffer   []byte
	sum      uint32
}

// openSection starts to read the section at off of an index that ends at end.
func (b *Block) openSection(ctx context.Context, off, end int64) (*section, error) {
	var length [4]byte
	if err := b.readIndex(ctx, length[:], off); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(length[:]))
	if off+4+n+4 > end {
		return nil, b.corrupt("index", off, badLength)
	}
	return &section{
		block: b, pos: off + 4, end: off + 4 + n,
		ahead: sectionPiece * int64(min(CostsOf(b.source).Calls, maxAhead)),
	}, nil
}

// at returns the offset of the next byte.
func (s *section) at() int64 { return s.pos - int64(len(s.rest)) }

// left returns the number of unread bytes.
func (s *section) left() int64 { return s.end - s.at() }

// fill reads until rest has at least n bytes, or all that are left.
func (s *section) fill(ctx context.Context, n int) error {
	for len(s.rest) < n && s.pos < s.end {
		size := int(min(s.end-s.pos, s.ahead))
		if len(s.rest)+size > cap(s.buffer) {
			grown := make([]byte, 0, len(s.rest)+size)
			s.buffer = grown
		}
		s.buffer = append(s.buffer[:0], s.rest...)
		piece := s.buffer[len(s.rest) : len(s.rest)+size]
		if err := s.block.readPieces(ctx, piece, s.pos); err != nil {
			return err
		}
		s.sum = crc32.Update(s.sum, castagnoli, piece)
		s.rest = s.buffer[:len(s.rest)+size]
		s.pos += int64(size)
	}
	return nil
}

func (s *section) corrupt(reason string) error {
	return s.block.corrupt("index", s.at(), reason)
}

// uint32 reads a number of four bytes.
func (s *section) uint32(ctx context.Context) (uint32, error) {
	if err := s.fill(ctx, 4); err != nil {
		return 0, err
	}
	if len(s.rest) < 4 {
		return 0, s.corrupt(endsEarly)
	}
	v := binary.BigEndian.Uint32(s.rest)
	s.rest = s.rest[4:]
	return v, nil
}

// uvarint reads a number.
func (s *section) uvarint(ctx context.Context) (uint64, error) {
	if len(s.rest) < binary.MaxVarintLen64 {
		if err := s.fill(ctx, binary.MaxVarintLen64); err != nil {
			return 0, err
		}
	}
	v, n := binary.Uvarint(s.rest)
	if n <= 0 {
		return 0, s.corrupt(badVarint)
	}
	s.rest = s.rest[n:]
	return v, nil
}

// maxText bounds a symbol, a label name and a label value in bytes. Readers of others in its neighborhood read it too.
const maxText = 1 << 20

// text reads a length and that many bytes, which are valid until the next call.
func (s *section) text(ctx context.Context) ([]byte, error) {
	n, err := s.uvarint(ctx)
	if err != nil {
		return nil, err
	}
	if n > uint64(s.left()) {
		return nil, s.corrupt(badLength)
	}
	if n > maxText {
		return nil, s.corrupt(fmt.Sprintf("a text of %d bytes", n))
	}
	if err := s.fill(ctx, int(n)); err != nil {
		return nil, err
	}
	b := s.rest[:n:n]
	s.rest = s.rest[n:]
	return b, nil
}

// finish reads the rest and checks the checksum.
func (s *section) finish(ctx context.Context) error {
	for s.left() > 0 {
		s.rest = nil
		if err := s.fill(ctx, 1); err != nil {
			return err
		}
		s.rest = nil
	}
	var sum [4]byte
	if err := s.block.readIndex(ctx, sum[:], s.end); err != nil {
		return err
	}
	if binary.BigEndian.Uint32(sum[:]) != s.sum {
		return s.block.corrupt("index", s.end, badChecksum)
	}
	return nil
}
