package tsblock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/taredb/tare/internal/panics"
)

// read reads the ranges, at most calls of them concurrently, and decodes each when it has arrived. With one
// range or one call it runs in the caller's goroutine.
func (l *chunkLoad) read(ctx context.Context, calls int) error {
	l.name()
	if calls = min(calls, len(l.ranges)); calls <= 1 {
		for i := range l.ranges {
			if err := panics.Guard(func() error { return l.readRange(ctx, i, &l.usage) }); err != nil {
				return err
			}
		}
		return nil
	}
	return l.readAtOnce(ctx, calls)
}

// readAtOnce reads with the given number of goroutines, including the caller's. The first error cancels the
// other reads, and is returned when all have finished.
func (l *chunkLoad) readAtOnce(ctx context.Context, calls int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		next    atomic.Int64
		mu      sync.Mutex
		failure error
	)
	work := func() {
		var usage Usage
		var err error
		for err == nil && ctx.Err() == nil {
			i := int(next.Add(1)) - 1
			if i >= len(l.ranges) {
				break
			}
			err = panics.Guard(func() error { return l.readRange(ctx, i, &usage) })
		}
		mu.Lock()
		defer mu.Unlock()
		l.usage.add(&usage)
		if err != nil && failure == nil {
			failure = err
			cancel()
		}
	}
	var others sync.WaitGroup
	for range calls - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	if failure == nil && int(next.Load()) < len(l.ranges) {
		failure = fmt.Errorf("block %s: read chunks: %w", l.block.prefix, context.Cause(ctx))
	}
	return failure
}

// readRange reads range i to its location and decodes its chunks.
func (l *chunkLoad) readRange(ctx context.Context, i int, usage *Usage) error {
	r, at := &l.ranges[i], l.places[i]
	dst := l.data.slabBytes(at.slab)[at.off : at.off+r.Len : at.off+r.Len]
	pages := l.cachedRange(r, dst)
	for again := false; ; again = true {
		// Bytes with a wrong checksum may have been damaged in transit: read them twice, both times from the bucket.
		if again {
			pages.drop()
		} else {
			pages.load(ctx, usage)
		}
		n, err := l.readMissing(ctx, r, &pages, usage)
		if err != nil {
			return err
		}
		if err := l.decode(ctx, i, dst[:n], usage); err == nil {
			pages.store()
			return nil
		} else if again || !isCorrupt(err) {
			return err
		}
	}
}

// readMissing reads the pages of a range that the caches lack. It returns the number of bytes of the range,
// which is less than its length only at the end of the file.
func (l *chunkLoad) readMissing(ctx context.Context, r *Range, p *cachedRange, usage *Usage) (int, error) {
	if p.from == p.to {
		return p.end, nil
	}
	n, err := l.readInto(ctx, r.Segment, r.Off+int64(p.from), p.dst[p.from:p.to], usage)
	if p.from+n < p.to {
		p.end = p.from + n
	}
	return p.end, err
}

// readInto fills dst and returns the number of bytes read, which is less than len(dst) only at the end of the
// file.
func (l *chunkLoad) readInto(ctx context.Context, segment uint32, off int64, dst []byte, usage *Usage) (int, error) {
	n, err := l.block.source.ReadRange(ctx, l.object(segment), off, dst)
	if n < 0 || n > len(dst) {
		panic(fmt.Sprintf("BUG: %d bytes read into %d", n, len(dst)))
	}
	usage.Reads++
	usage.Fetched += int64(n)
	switch {
	case n == len(dst) || errors.Is(err, ErrObjectEnd):
		return n, nil
	case err == nil:
		return n, fmt.Errorf("block %s: read %s at %d: %w", l.block.prefix, SegmentFile(segment), off, io.ErrNoProgress)
	}
	return n, fmt.Errorf("block %s: read %s at %d: %w", l.block.prefix, SegmentFile(segment), off, err)
}

// decode checks the chunks of range i in the bytes b and records their locations. b may be shorter than the
// range only if the last chunk ends before.
func (l *chunkLoad) decode(ctx context.Context, i int, b []byte, usage *Usage) error {
	r, at := &l.ranges[i], l.places[i]
	if r.Off < segmentHeaderSize {
		if reason := checkSegmentHeader(b); reason != "" {
			return l.block.corrupt(SegmentFile(r.Segment), r.Off, reason)
		}
	}
	var chunks, touched, longest int64
	for k := r.First; k < r.End; {
		_, off := splitRef(l.refs[k])
		rest := b[min(off-r.Off, int64(len(b))):]
		same := k + 1
		for same < r.End && l.refs[same] == l.refs[k] {
			same++
		}
		if same < r.End {
			// The chunk ends at or before the start of the next.
			_, following := splitRef(l.refs[same])
			if n := following - off; n < int64(len(rest)) {
				rest = rest[:n]
			}
		}
		encoding, data, size, reason := decodeChunk(rest)
		v := chunkView{slab: uint32(at.slab), encoding: encoding}
		switch {
		case reason != "":
			return l.block.corrupt(SegmentFile(r.Segment), off, reason)
		case data != nil:
			v.off, v.len = uint32(at.off+off-r.Off)+uint32(size-len(data)-checksumSize), uint32(len(data))
		case same < r.End && r.Off+int64(len(b)) > off+int64(len(rest)):
			return l.block.corrupt(SegmentFile(r.Segment), off, chunkOverlap)
		case int64(len(b)) < r.Len || size == 0:
			return l.block.corrupt(SegmentFile(r.Segment), off, endsEarly)
		case l.overlaps(r, off+int64(size)):
			return l.block.corrupt(SegmentFile(r.Segment), off, chunkOverlap)
		default:
			var err error
			if v, err = l.readRest(ctx, r.Segment, off, rest, size, usage); err != nil {
				return err
			}
		}
		for ; k < same; k++ {
			*l.viewOf(k) = v
			usage.Items++
		}
		chunks++
		touched += int64(size)
		longest = max(longest, int64(size))
	}
	usage.Touched += touched
	l.lengths.add(chunks, touched, longest)
	return nil
}

// overlaps reports whether a chunk of range r that ends at end overlaps the first chunk of the next range.
func (l *chunkLoad) overlaps(r *Range, end int64) bool {
	if r.End == len(l.refs) {
		return false
	}
	segment, following := splitRef(l.refs[r.End])
	return segment == r.Segment && end > following
}

// readRest reads the rest of the last chunk of a range that extends beyond the range. The chunk takes size
// bytes from off and starts with head. It gets a separate slab.
func (l *chunkLoad) readRest(ctx context.Context, segment uint32, off int64, head []byte, size int, usage *Usage) (chunkView, error) {
	number, b, err := l.data.extend(size)
	if err != nil {
		return chunkView{}, err
	}
	n := copy(b, head)
	m, err := l.readInto(ctx, segment, off+int64(n), b[n:], usage)
	if err != nil {
		return chunkView{}, err
	}
	encoding, data, size, reason := decodeChunk(b[:n+m])
	switch {
	case reason != "":
		return chunkView{}, l.block.corrupt(SegmentFile(segment), off, reason)
	case data == nil:
		return chunkView{}, l.block.corrupt(SegmentFile(segment), off, endsEarly)
	}
	return chunkView{
		slab: uint32(number), encoding: encoding,
		off: uint32(size - len(data) - checksumSize), len: uint32(len(data)),
	}, nil
}

// slabBytes returns the bytes of a slab while other slabs are added.
func (d *chunkData) slabBytes(number int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bytes[number]
}
