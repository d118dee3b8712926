package tsblock

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/taredb/tare/internal/slab"
)

// Bounds of reading postings lists.
const (
	// maxListRange bounds a range of lists that is read as one.
	maxListRange = 1 << 30

	// listPages is the number of pages of lists that are pinned at once: 2 MiB.
	listPages = 128

	// listFrame is the size of a list besides its references: length, count, CRC32C.
	listFrame = 12
)

// A listRange is a sequence of adjacent postings lists in the index, in the order of their values.
type listRange struct {
	off   int64
	size  int64 // 0: unknown, of one list
	open  bool  // size was unknown, and is taken from the list
	lists int64
}

// A selection is the set of lists that the matchers of one label name select.
type selection struct {
	from, to int   // indices into scratch.ranges
	bytes    int64 // total size of lists of known size
	lists    int64
	subtract bool // subtract the series from the result
}

// choose adds a list to the current selection.
func (r *Reader) choose(s *selection, off, size int64) error {
	ranges := r.scratch.ranges
	s.bytes += size
	s.lists++
	if k := len(ranges) - 1; k >= s.from && size > 0 && ranges[k].size > 0 && ranges[k].off+ranges[k].size == off && ranges[k].size+size <= maxListRange {
		ranges[k].size += size
		ranges[k].lists++
		return nil
	}
	ranges, err := room(r, ranges, 1)
	if err != nil {
		return err
	}
	r.scratch.ranges = append(ranges, listRange{off: off, size: size, lists: 1, open: size == 0})
	s.to = len(r.scratch.ranges)
	return nil
}

// expand reads the lists of a selection and returns their references in ascending order. It reserves memory
// before it reads, and checks each list's checksum. Pages whose lists do not decode are fetched a second time
// before the lists count as corrupt, and do not stay cached.
func (r *Reader) expand(ctx context.Context, s *selection) ([]uint32, error) {
	lent := len(r.slabs)
	refs, err := r.readSelection(ctx, s)
	if err == nil || !isCorrupt(err) {
		return refs, err
	}
	r.freeAfter(slab.Postings, lent)
	r.forgetSelection(s)
	if refs, err = r.readSelection(ctx, s); err != nil && isCorrupt(err) {
		r.forgetSelection(s)
	}
	return refs, err
}

// forgetSelection removes the pages of a selection's lists from the cache.
func (r *Reader) forgetSelection(s *selection) {
	set := &r.scratch.index
	set.init(r.head.index, slab.Postings, &r.stats.Postings)
	for i := s.from; i < s.to; i++ {
		g := &r.scratch.ranges[i]
		set.forget(g.off, max(g.size, 4))
		if g.open {
			g.size = 0
		}
	}
	set.reset()
}

// readSelection reads the lists of a selection once.
func (r *Reader) readSelection(ctx context.Context, s *selection) ([]uint32, error) {
	ranges := r.scratch.ranges[s.from:s.to]
	if len(ranges) == 0 {
		return nil, nil
	}
	set := &r.scratch.index
	set.init(r.head.index, slab.Postings, &r.stats.Postings)
	defer set.reset()
	most, err := r.countRefs(ctx, set, ranges)
	if err != nil {
		return nil, err
	}
	buffer, err := r.alloc(slab.Postings, int(most)*4)
	if err != nil {
		return nil, err
	}
	refs := refsIn(buffer)

	w := walk{set: set}
	pinned := 0 // number of ranges whose pages are pinned
	for i, g := range ranges {
		if i >= pinned {
			set.reset()
			for pinned = i; pinned < len(ranges); pinned++ {
				n := min(ranges[pinned].size, listPages*pageSize)
				if pinned > i && len(set.pins)+int(n>>pageBits) >= listPages {
					break
				}
				set.request(ranges[pinned].off, n)
			}
			if err := set.load(ctx); err != nil {
				return nil, err
			}
		}
		w.start(g.off, g.off+g.size, listPages*pageSize)
		if refs, err = r.readLists(ctx, &w, g, refs); err != nil {
			return nil, err
		}
	}
	r.stats.Refs += int64(len(refs))
	if s.lists > 1 {
		return r.sortRefs(refs)
	}
	return refs, nil
}

// tooManyPostings reports lists that share series: the values of a label have different ones.
const tooManyPostings = "the lists of a label have more postings than there can be series"

// mostSeries returns an upper bound of the number of series.
func (h *header) mostSeries() int64 {
	least := int64(1 + 1 + 1 + 4) // length, number of labels, number of chunks, checksum
	if h.version == 2 {
		least = seriesAlign
	}
	return (h.series.to - h.series.from + least - 1) / least
}

// countRefs returns an upper bound of the number of references in the lists of ranges, which are of one label, and
// sets unknown sizes.
func (r *Reader) countRefs(ctx context.Context, set *pageSet, ranges []listRange) (most int64, err error) {
	for i := range ranges {
		g := &ranges[i]
		if g.size == 0 {
			length, err := set.view(ctx, g.off, 4)
			if err != nil {
				return 0, err
			}
			g.size = 8 + int64(binary.BigEndian.Uint32(length))
		}
		if g.off < 0 || g.size < listFrame*g.lists || g.size > r.head.size-indexTOC-g.off {
			return 0, r.block.corrupt("index", g.off, "postings lists: "+badLength)
		}
		most += (g.size - listFrame*g.lists) / 4
	}
	return max(min(most, r.head.mostSeries()), 1), nil // empty lists are still read and checked
}

// readLists appends the references of the lists in a range.
func (r *Reader) readLists(ctx context.Context, w *walk, g listRange, refs []uint32) ([]uint32, error) {
	for range g.lists {
		at := w.pos
		frame, err := w.bytes(ctx, 8)
		if err != nil {
			return nil, err
		}
		length, count := binary.BigEndian.Uint32(frame), binary.BigEndian.Uint32(frame[4:])
		sum := crc32.Update(0, castagnoli, frame[4:])
		if int64(length) != 4+4*int64(count) || w.pos+4*int64(count)+4 > w.end {
			return nil, r.block.corrupt("index", at, "postings list: "+badLength)
		}
		if int64(count) > int64(cap(refs)-len(refs)) {
			return nil, r.block.corrupt("index", at, tooManyPostings)
		}
		first := len(refs)
		refs = refs[:first+int(count)]
		raw := rawRefs(refs[first:])
		for len(raw) > 0 {
			if err := w.fill(ctx); err != nil {
				return nil, err
			}
			n := copy(raw, w.rest)
			sum = crc32.Update(sum, castagnoli, raw[:n])
			raw, w.rest, w.pos = raw[n:], w.rest[n:], w.pos+int64(n)
		}
		tail, err := w.bytes(ctx, 4)
		if err != nil {
			return nil, err
		}
		if binary.BigEndian.Uint32(tail) != sum {
			return nil, r.block.corrupt("index", at, "postings list: "+badChecksum)
		}
		raw = rawRefs(refs[first:])
		for i := range refs[first:] {
			refs[first+i] = binary.BigEndian.Uint32(raw[4*i:])
		}
		r.stats.Postings.Items++
		r.stats.Postings.Touched += int64(length) + 8
		if pad := -w.pos & 3; pad > 0 && pad < w.end-w.pos {
			w.seek(w.pos + pad) // lists are aligned to four bytes
		}
	}
	if g.lists > 1 && w.pos != g.off+g.size {
		return nil, r.block.corrupt("index", w.pos, "postings lists do not follow each other as their offsets say")
	}
	return refs, nil
}

// refsIn returns an empty slice of references with the capacity of a slab. Slabs are aligned for any number
// type.
func refsIn(buffer []byte) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(buffer))), len(buffer)/4)[:0]
}

// rawRefs returns the memory of references.
func rawRefs(refs []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(refs))), 4*len(refs))
}

// sortRefs sorts references and removes duplicates. Lists of values that ascend with the series are sorted
// already. Otherwise, where references are dense, a bitmap is the fastest way: it takes the time of writing
// it, and at most four times the memory of the list.
func (r *Reader) sortRefs(refs []uint32) ([]uint32, error) {
	sorted := true
	var least, most uint32
	for i, ref := range refs {
		if i == 0 {
			least, most = ref, ref
			continue
		}
		sorted = sorted && refs[i-1] < ref
		least, most = min(least, ref), max(most, ref)
	}
	if sorted {
		return refs, nil
	}
	words := (uint64(most-least) + 64) / 64
	if words > 4*uint64(len(refs)) || len(refs) < 256 {
		slices.Sort(refs)
		return slices.Compact(refs), nil
	}
	size := r.block.options.Pool.Size(int(words * 8))
	if err := r.account.reserve(slab.Postings, size); err != nil {
		return nil, err
	}
	defer r.account.release(slab.Postings, size)
	buffer := r.block.options.Pool.Bytes(int(words * 8))
	defer buffer.Release()
	bitmap := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(buffer.Bytes()))), words)
	clear(bitmap)
	for _, ref := range refs {
		bitmap[(ref-least)/64] |= 1 << ((ref - least) % 64)
	}
	n := 0
	for i, word := range bitmap {
		for ; word != 0; word &= word - 1 {
			refs[n] = least + uint32(i)*64 + uint32(bits.TrailingZeros64(word))
			n++
		}
	}
	return refs[:n], nil
}
