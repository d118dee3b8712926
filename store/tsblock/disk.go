package tsblock

import (
	"context"
	"slices"

	"github.com/taredb/tare/internal/store/diskcache"
	"github.com/taredb/tare/internal/store/sharedcache"
)

// Pages of both packages are the same.
var _ = [1]struct{}{}[pageSize-diskcache.PageSize]

// pageCaches are the caches beyond memory: a file on local disk, and memcached servers. Both are optional.
type pageCaches struct {
	disk   *diskcache.Cache
	shared *sharedcache.Cache
}

func (c *pageCaches) none() bool { return c.disk == nil && c.shared == nil }

// set adds a page to both caches.
func (c *pageCaches) set(o diskcache.Object, page uint32, data []byte) {
	if c.disk != nil {
		c.disk.Set(o, page, data)
	}
	if c.shared != nil {
		c.shared.Set(o, page, data)
	}
}

// A cachedBlock identifies a block in the caches. The zero value has no caches.
type cachedBlock struct {
	pageCaches
	id      diskcache.Block
	version int64 // size of the index: a block written again under the same ULID has other pages
}

// caches returns the block's identity in the caches beyond memory. The index header must be loaded; otherwise, or if
// there are no such caches, the result has none.
func (b *Block) caches() cachedBlock {
	h := b.header.now.Load()
	caches := pageCaches{b.options.Disk, b.options.Shared}
	if caches.none() || h == nil {
		return cachedBlock{}
	}
	return cachedBlock{pageCaches: caches, id: diskcache.BlockOf(b.prefix), version: h.size}
}

func (d *cachedBlock) object(file string) diskcache.Object { return d.id.Object(d.version, file) }

// caches returns the caches beyond memory and the identity of the set's file in them. There are none if the file is
// not in the bucket.
func (s *pageSet) caches() (pageCaches, diskcache.Object) {
	o := &s.reader.block.options
	caches := pageCaches{o.Disk, o.Shared}
	if caches.none() || s.file.kind != indexFile {
		return pageCaches{}, diskcache.Object{}
	}
	d := cachedBlock{id: diskcache.BlockOf(s.reader.block.prefix), version: s.file.size}
	return caches, d.object(s.file.name)
}

// loadCached pins the missing pages that are on local disk or in the shared cache, and returns their number.
func (s *pageSet) loadCached(ctx context.Context, missing int) (found int) {
	caches, object := s.caches()
	if caches.disk != nil {
		found = s.loadFromDisk(caches.disk, object)
	}
	if caches.shared != nil && found < missing && !s.distrust {
		found += s.loadShared(ctx, caches, object, missing-found)
	}
	return found
}

func (s *pageSet) loadFromDisk(cache *diskcache.Cache, object diskcache.Object) (found int) {
	for i := range s.pins {
		p := &s.pins[i]
		if p.data != nil || !cache.Probe(object, p.page) {
			continue
		}
		data := make([]byte, s.lengthOf(p.page))
		if n, ok := cache.Get(object, p.page, data); !ok || n < len(data) {
			continue
		}
		s.pin(p, data)
		s.usage.Disk += int64(len(data))
		found++
	}
	return found
}

// loadShared adds the pages that it finds to the local disk.
func (s *pageSet) loadShared(ctx context.Context, caches pageCaches, object diskcache.Object, missing int) (found int) {
	pages := make([]uint32, 0, missing)
	for i := range s.pins {
		if s.pins[i].data == nil {
			pages = append(pages, s.pins[i].page)
		}
	}
	caches.shared.Get(ctx, object, pages, func(page uint32, data []byte) {
		n := s.lengthOf(page)
		at, ok := slices.BinarySearchFunc(s.pins, page, func(p pin, n uint32) int { return int(int64(p.page) - int64(n)) })
		if !ok || len(data) < n {
			return
		}
		s.pin(&s.pins[at], append(make([]byte, 0, n), data[:n]...))
		s.usage.Shared += int64(n)
		found++
		if caches.disk != nil {
			caches.disk.Set(object, page, data)
		}
	})
	return found
}

// lengthOf returns the length of a page.
func (s *pageSet) lengthOf(page uint32) int {
	return int(min(pageSize, s.file.size-int64(page)<<pageBits))
}

// pin pins a page that was read and adds it to the cache in memory.
func (s *pageSet) pin(p *pin, data []byte) {
	p.data = data
	s.reader.block.options.Cache.pages.Set(s.key(p.page), data)
}

// alignRanges widens ranges to pages. Ranges that then overlap are merged, as long as the result is not longer
// than defaultMaxRange; otherwise both contain the page in which they meet.
func alignRanges(ranges []Range) []Range {
	aligned := ranges[:0]
	for _, r := range ranges {
		end := (r.Off + r.Len + pageSize - 1) &^ (pageSize - 1)
		r.Off &^= pageSize - 1
		r.Len = end - r.Off
		if k := len(aligned) - 1; k >= 0 && aligned[k].meets(&r) && end-aligned[k].Off <= defaultMaxRange {
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

// A cachedRange is a range of a chunk file whose pages may be in the caches.
type cachedRange struct {
	caches pageCaches
	object diskcache.Object
	first  uint32 // page at the start of dst
	dst    []byte // of whole pages if there is a cache

	from, to int // dst[from:to] must be fetched
	end      int // bytes of dst that the file has, as far as is known

	absent, absentTo int // dst[absent:absentTo] was not on local disk
}

// cachedRange returns the range of dst, of which nothing is loaded.
func (l *chunkLoad) cachedRange(r *Range, dst []byte) cachedRange {
	d := cachedRange{caches: l.cached.pageCaches, dst: dst}
	d.drop()
	if !d.caches.none() {
		file := l.object(r.Segment)[len(l.block.prefix)+1:]
		d.object, d.first = l.cached.object(file), uint32(r.Off>>pageBits)
	}
	return d
}

// page returns the page at an offset of dst.
func (d *cachedRange) page(at int) uint32 { return d.first + uint32(at>>pageBits) }

// load copies pages from the caches, and counts their bytes.
func (d *cachedRange) load(ctx context.Context, usage *Usage) {
	if disk := d.caches.disk; disk != nil {
		usage.Disk += int64(d.narrow(func(at int) (int, bool) {
			return disk.Get(d.object, d.page(at), d.dst[at:at+pageSize])
		}))
	}
	d.absent, d.absentTo = d.from, d.to
	if d.caches.shared != nil && d.from < d.to {
		usage.Shared += int64(d.loadShared(ctx))
	}
}

// loadShared copies pages from the shared cache.
func (d *cachedRange) loadShared(ctx context.Context) (loaded int) {
	start := d.page(d.from)
	pages := make([]uint32, 0, (d.to-d.from+pageSize-1)/pageSize)
	for at := d.from; at < d.to; at += pageSize {
		pages = append(pages, d.page(at))
	}
	lengths := make([]int32, len(pages)) // and 1; 0: not found
	from := d.from
	d.caches.shared.Get(ctx, d.object, pages, func(page uint32, data []byte) {
		i := int(page - start)
		lengths[i] = int32(copy(d.dst[from+i*pageSize:], data)) + 1
	})
	return d.narrow(func(at int) (int, bool) {
		n := lengths[(at-from)/pageSize]
		return int(n) - 1, n > 0
	})
}

// narrow calls get for the pages of the range until one is missing, first from its start, then from its end, so that
// one call fetches the rest. It returns the number of bytes found.
func (d *cachedRange) narrow(get func(at int) (n int, ok bool)) (loaded int) {
	for d.from < d.to {
		n, ok := get(d.from)
		if !ok {
			break
		}
		loaded += n
		if n < pageSize { // the file ends
			d.end = d.from + n
			d.from, d.to = d.end, d.end
			return loaded
		}
		d.from += pageSize
	}
	for at := d.to - pageSize; at > d.from; at -= pageSize {
		n, ok := get(at)
		if !ok {
			break
		}
		if n < pageSize {
			d.end = at + n
		}
		loaded += n
		d.to = at
	}
	return loaded
}

// drop forgets the bytes that are loaded: all of the range must be fetched. store then replaces the pages in the
// caches.
func (d *cachedRange) drop() {
	d.from, d.to, d.end = 0, len(d.dst), len(d.dst)
	d.absent, d.absentTo = d.from, d.to
}

// store adds the fetched pages to the caches, and those of the shared cache to the local disk. The last page of the
// file has its length, which may be 0.
func (d *cachedRange) store() {
	if d.caches.none() {
		return
	}
	for at := d.absent; at < d.absentTo; at += pageSize {
		data := d.dst[at:min(at+pageSize, max(d.end, at))]
		switch {
		case at >= d.from && at < d.to:
			d.caches.set(d.object, d.page(at), data)
		case d.caches.disk != nil:
			d.caches.disk.Set(d.object, d.page(at), data)
		}
		if at+pageSize > d.end {
			return // the file ends in this page
		}
	}
}
