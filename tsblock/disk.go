package tsblock

import (
	"github.com/taredb/tare/tsblock/diskcache"
)

// Pages of both packages are the same.
var _ = [1]struct{}{}[PageSize-diskcache.PageSize]

// A diskBlock identifies a block in the disk cache. The zero value has no cache.
type diskBlock struct {
	cache   *diskcache.Cache
	id      diskcache.Block
	version int64 // size of the index: a block written again under the same ULID has other pages
}

// onDisk returns the block's identity in the disk cache. The index header must be loaded; otherwise, or if there
// is no disk cache, the result has no cache.
func (b *Block) onDisk() diskBlock {
	h := b.header.now.Load()
	if b.options.Disk == nil || h == nil {
		return diskBlock{}
	}
	return diskBlock{cache: b.options.Disk, id: diskcache.BlockOf(b.prefix), version: h.size}
}

func (d *diskBlock) object(file string) diskcache.Object { return d.id.Object(d.version, file) }

// diskIndex returns the disk cache and the identity of the set's file in it. It returns nil if the file is not in
// the bucket, or if there is no disk cache.
func (s *pageSet) diskIndex() (*diskcache.Cache, diskcache.Object) {
	cache := s.reader.block.options.Disk
	if cache == nil || s.file.kind != indexFile {
		return nil, diskcache.Object{}
	}
	d := diskBlock{id: diskcache.BlockOf(s.reader.block.prefix), version: s.file.size}
	return cache, d.object(s.file.name)
}

// loadFromDisk pins the missing pages that are in the disk cache, and returns their number.
func (s *pageSet) loadFromDisk() (found int) {
	cache, object := s.diskIndex()
	if cache == nil {
		return 0
	}
	for i := range s.pins {
		p := &s.pins[i]
		if p.data != nil || !cache.Probe(object, p.page) {
			continue
		}
		data := make([]byte, min(PageSize, s.file.size-int64(p.page)<<pageBits))
		if n, ok := cache.Get(object, p.page, data); !ok || n < len(data) {
			continue
		}
		p.data = data
		s.reader.block.options.Cache.pages.Set(s.key(p.page), data)
		s.usage.Disk += int64(len(data))
		found++
	}
	return found
}

// alignRanges widens ranges to pages. Ranges that then overlap are merged, as long as the result is not longer
// than DefaultMaxRange; otherwise both contain the page in which they meet.
func alignRanges(ranges []Range) []Range {
	aligned := ranges[:0]
	for _, r := range ranges {
		end := (r.Off + r.Len + PageSize - 1) &^ (PageSize - 1)
		r.Off &^= PageSize - 1
		r.Len = end - r.Off
		if k := len(aligned) - 1; k >= 0 && aligned[k].meets(&r) && end-aligned[k].Off <= DefaultMaxRange {
			aligned[k].Len, aligned[k].End = end-aligned[k].Off, r.End
			continue
		}
		aligned = append(aligned, r)
	}
	return aligned
}

func (r *Range) meets(next *Range) bool {
	return r.Segment == next.Segment && next.Off < r.Off+r.Len
}

// A diskRange is a range of a chunk file whose pages may be in the disk cache.
type diskRange struct {
	cache  *diskcache.Cache // nil: none
	object diskcache.Object
	first  uint32 // page at the start of dst
	dst    []byte // of whole pages if there is a cache

	from, to int // dst[from:to] must be fetched
	end      int // bytes of dst that the file has, as far as is known
}

// diskRange returns the range of dst, of which nothing is loaded.
func (l *chunkLoad) diskRange(r *Range, dst []byte) diskRange {
	d := diskRange{cache: l.disk.cache, dst: dst, to: len(dst), end: len(dst)}
	if d.cache != nil {
		file := l.object(r.Segment)[len(l.block.prefix)+1:]
		d.object, d.first = l.disk.object(file), uint32(r.Off>>pageBits)
	}
	return d
}

// page returns the page at an offset of dst.
func (d *diskRange) page(at int) uint32 { return d.first + uint32(at>>pageBits) }

// load copies pages from the disk cache until one is missing, first from the start of the range, then from its
// end, so that one call fetches the rest. It returns the number of bytes copied.
func (d *diskRange) load() (loaded int) {
	if d.cache == nil {
		return 0
	}
	for d.from < d.to {
		n, ok := d.cache.Get(d.object, d.page(d.from), d.dst[d.from:d.from+PageSize])
		if !ok {
			break
		}
		loaded += n
		if n < PageSize { // the file ends
			d.end = d.from + n
			d.from, d.to = d.end, d.end
			return loaded
		}
		d.from += PageSize
	}
	for at := d.to - PageSize; at > d.from; at -= PageSize {
		n, ok := d.cache.Get(d.object, d.page(at), d.dst[at:at+PageSize])
		if !ok {
			break
		}
		if n < PageSize {
			d.end = at + n
		}
		loaded += n
		d.to = at
	}
	return loaded
}

// drop forgets the bytes that are loaded: all of the range must be fetched. store then replaces the pages in the
// disk cache.
func (d *diskRange) drop() { d.from, d.to, d.end = 0, len(d.dst), len(d.dst) }

// store adds the fetched pages to the disk cache, the last one of the file with its length, which may be 0.
func (d *diskRange) store() {
	if d.cache == nil {
		return
	}
	for at := d.from; at < d.to; at += PageSize {
		d.cache.Set(d.object, d.page(at), d.dst[at:min(at+PageSize, max(d.end, at))])
		if at+PageSize > d.end {
			return // the file ends in this page
		}
	}
}
