package tsblock

import (
	"context"
	"slices"
	"sync"

	"github.com/taredb/tare/internal/crc32c"
	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/internal/slab"
)

// Bounds of page fetches.
const (
	maxRunPages = 64      // in one read: 1 MiB
	maxFlight   = 8 << 20 // bytes of runs that one reader fetches concurrently
)

// A pagedFile is a file of a block that is read by pages through the cache.
type pagedFile struct {
	name string // for errors
	kind fileKind
	size int64 // length of the part that is read by pages, from offset 0

	// read fills dst with the bytes at off.
	read func(ctx context.Context, dst []byte, off int64) error

	// sums are the CRC32C of the pages, checked when they are fetched. Without them each item in the pages
	// has a checksum, which is checked when it is decoded.
	sums []uint32

	// costs are the costs of reading the file.
	costs Costs

	// rebuild builds a local file again after a page of it was found damaged; nil: the file is the bucket's.
	rebuild func(context.Context) error
}

// A pageSet is a set of pages of one file that a reader uses. They are pinned, so that they survive eviction
// from the cache, and charged to the query.
type pageSet struct {
	reader *Reader
	file   *pagedFile
	what   slab.Purpose
	usage  *Usage
	pins   []pin // by page
	at     int   // index of the pin used last
	span   []byte
	held   int64 // bytes reserved for pins

	distrust bool // the reader found a damaged page: it does not read the shared cache any more
}

// A pin is one page; data is nil until it is loaded.
type pin struct {
	page uint32
	data []byte
}

// init clears the set and makes it pin pages of file, charged as what and counted in usage.
func (s *pageSet) init(file *pagedFile, what slab.Purpose, usage *Usage) {
	s.reset()
	s.file, s.what, s.usage = file, what, usage
}

// reset unpins all pages.
func (s *pageSet) reset() {
	clear(s.pins)
	s.pins, s.at = s.pins[:0], 0
	if s.held != 0 {
		s.reader.account.release(s.what, s.held)
		s.held = 0
	}
}

// request adds the pages of n bytes at off, as far as the file has them, to the next load.
func (s *pageSet) request(off, n int64) {
	if off < 0 || off >= s.file.size || n <= 0 {
		return
	}
	last := uint32((min(off+n, s.file.size) - 1) >> pageBits)
	for p := uint32(off >> pageBits); p <= last; p++ {
		if k := len(s.pins); k > 0 && s.pins[k-1].page == p {
			continue
		}
		s.pins = append(s.pins, pin{page: p})
	}
}

// load pins the wanted pages, from the cache or else from the file.
func (s *pageSet) load(ctx context.Context) error {
	ascending := func(a, b pin) int { return int(int64(a.page) - int64(b.page)) }
	if !slices.IsSortedFunc(s.pins, ascending) {
		slices.SortStableFunc(s.pins, ascending)
	}
	s.pins = slices.CompactFunc(s.pins, func(a, b pin) bool { return a.page == b.page })
	s.at = 0
	if more := int64(len(s.pins))*pageSize - s.held; more > 0 {
		if err := s.reader.account.reserve(s.what, more); err != nil {
			clear(s.pins)
			s.pins = s.pins[:0]
			return err
		}
		s.held += more
	}
	missing := 0
	for i := range s.pins {
		p := &s.pins[i]
		if p.data != nil {
			continue
		}
		if data, ok := s.reader.block.options.Cache.pages.Get(s.key(p.page)); ok {
			p.data = data
			s.usage.Cached += int64(len(data))
		} else {
			missing++
		}
	}
	if missing > 0 {
		missing -= s.loadCached(ctx, missing)
	}
	if missing == 0 {
		return nil
	}
	if err := s.fetch(ctx); err != nil {
		clear(s.pins)
		s.pins = s.pins[:0]
		return err
	}
	return nil
}

func (s *pageSet) key(page uint32) pageKey {
	return pageKey{block: s.reader.block.number, page: page, file: s.file.kind}
}

// A run is a range of pages that are fetched with one read, and the pins within it.
type run struct {
	first, last uint32
	from, to    int // pins[from:to] are in the run
	err         error
}

// bytes returns the length of the run in a file.
func (r *run) bytes(f *pagedFile) int64 {
	return min(int64(r.last+1)<<pageBits, f.size) - int64(r.first)<<pageBits
}

// fetch reads the missing pages, including gaps between them, several runs concurrently.
func (s *pageSet) fetch(ctx context.Context) error {
	var runs []run
	gap := uint32(min(s.file.costs.Gap>>pageBits, maxRunPages))
	for i := range s.pins {
		p := &s.pins[i]
		if p.data != nil {
			continue
		}
		if k := len(runs) - 1; k >= 0 && p.page-runs[k].last <= gap+1 && p.page-runs[k].first < maxRunPages {
			runs[k].last, runs[k].to = p.page, i+1
			continue
		}
		runs = append(runs, run{first: p.page, last: p.page, from: i, to: i + 1})
	}
	// Pages in flight are charged too.
	largest := int64(pageSize)
	for i := range runs {
		if runs[i].last > runs[i].first {
			largest = max(largest, s.reader.block.options.Pool.Size(int(runs[i].bytes(s.file))))
		}
	}
	calls := min(len(runs), max(s.file.costs.Calls, 1), int(maxFlight/largest))
	flight := largest * int64(calls)
	if err := s.reader.account.reserve(s.what, flight); err != nil {
		return err
	}
	defer s.reader.account.release(s.what, flight)

	if calls > 1 {
		s.fetchRuns(ctx, runs, calls)
	}
	for i := range runs {
		if calls == 1 {
			s.fetchRun(ctx, &runs[i])
		}
		if runs[i].err != nil {
			return runs[i].err
		}
	}
	for i := range runs {
		s.usage.Reads++
		s.usage.Fetched += runs[i].bytes(s.file)
		wanted := int64(0)
		for _, p := range s.pins[runs[i].from:runs[i].to] {
			wanted += int64(len(p.data))
		}
		s.usage.Wasted += runs[i].bytes(s.file) - wanted
	}
	return nil
}

// fetchRuns reads runs in calls goroutines.
func (s *pageSet) fetchRuns(ctx context.Context, runs []run, calls int) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan *run)
	var workers sync.WaitGroup
	for range calls {
		workers.Go(func() {
			for r := range next {
				if err := panics.Guard(func() error { s.fetchRun(ctx, r); return r.err }); err != nil {
					r.err = err
					cancel(r.err) // stop the other reads
				}
			}
		})
	}
	for i := range runs {
		next <- &runs[i]
	}
	close(next)
	workers.Wait()
	if cause := context.Cause(ctx); cause != nil {
		runs[0].err = cause
	}
}

// fetchRun reads one run, checks its pages, adds them to the cache and pins those that were requested. Each
// page is a separate allocation, so that the cache's accounting matches the heap.
func (s *pageSet) fetchRun(ctx context.Context, r *run) {
	if r.err = ctx.Err(); r.err != nil {
		r.err = context.Cause(ctx)
		return
	}
	off, n := int64(r.first)<<pageBits, r.bytes(s.file)
	var whole []byte
	if r.first < r.last {
		buffer := s.reader.block.options.Pool.Bytes(int(n))
		defer buffer.Release()
		whole = buffer.Bytes()
	} else {
		whole = make([]byte, n)
	}
	if r.err = s.readTwice(ctx, whole, off); r.err != nil {
		return
	}
	want := s.pins[r.from:r.to]
	caches, object := s.caches()
	for p := r.first; p <= r.last; p++ {
		data := whole
		if r.first < r.last {
			at := int(p-r.first) << pageBits
			data = append(make([]byte, 0, min(pageSize, len(whole)-at)), whole[at:min(at+pageSize, len(whole))]...)
		}
		s.reader.block.options.Cache.pages.Set(s.key(p), data)
		caches.set(object, p, data)
		for len(want) > 0 && want[0].page < p {
			want = want[1:]
		}
		if len(want) > 0 && want[0].page == p && want[0].data == nil {
			want[0].data = data
		}
	}
}

// readTwice reads pages and checks those that have checksums. It reads damaged bytes a second time, since
// they may have been damaged in transit; those of a local file after it was built again.
func (s *pageSet) readTwice(ctx context.Context, dst []byte, off int64) error {
	err := s.readChecked(ctx, dst, off)
	if err == nil || !isCorrupt(err) {
		return err
	}
	if s.file.rebuild != nil {
		if err := s.file.rebuild(ctx); err != nil {
			return err
		}
	}
	return s.readChecked(ctx, dst, off)
}

func (s *pageSet) readChecked(ctx context.Context, dst []byte, off int64) error {
	if err := s.file.read(ctx, dst, off); err != nil || s.file.sums == nil {
		return err
	}
	for n := 0; n < len(dst); n += pageSize {
		at := off + int64(n)
		if crc32c.Checksum(dst[n:min(n+pageSize, len(dst))]) != s.file.sums[at>>pageBits] {
			return s.reader.block.corrupt(s.file.name, at, badChecksum)
		}
	}
	return nil
}

// forget removes the pages of n bytes at off from the caches and from their pins, so that the next load
// fetches them again. Fetched pages replace those of the shared cache, which the reader does not read
// any more.
func (s *pageSet) forget(off, n int64) {
	if off < 0 || off >= s.file.size || n <= 0 {
		return
	}
	s.distrust = true
	first, last := uint32(off>>pageBits), uint32(min(off+min(n, s.file.size), s.file.size-1)>>pageBits)
	caches, object := s.caches()
	for p := first; p <= last; p++ {
		s.reader.block.options.Cache.pages.Delete(s.key(p))
		if caches.disk != nil {
			caches.disk.Delete(object, p)
		}
	}
	for i := range s.pins {
		if p := &s.pins[i]; p.page >= first && p.page <= last {
			p.data = nil
		}
	}
}

// page returns a page and pins it if needed.
func (s *pageSet) page(ctx context.Context, n uint32) ([]byte, error) {
	for s.at < len(s.pins) && s.pins[s.at].page < n && s.at+1 < len(s.pins) && s.pins[s.at+1].page <= n {
		s.at++
	}
	if s.at < len(s.pins) && s.pins[s.at].page == n && s.pins[s.at].data != nil {
		return s.pins[s.at].data, nil
	}
	at, found := slices.BinarySearchFunc(s.pins, n, func(p pin, n uint32) int { return int(int64(p.page) - int64(n)) })
	if !found || s.pins[at].data == nil {
		if !found {
			s.pins = slices.Insert(s.pins, at, pin{page: n})
		}
		if err := s.load(ctx); err != nil {
			return nil, err
		}
	}
	s.at = at
	return s.pins[at].data, nil
}

// view returns n bytes at off. They are valid until the next call: bytes that span pages are copied to a
// buffer that the next call overwrites.
func (s *pageSet) view(ctx context.Context, off int64, n int) ([]byte, error) {
	if off < 0 || n < 0 || off > s.file.size || int64(n) > s.file.size-off {
		return nil, s.reader.block.corrupt(s.file.name, off, endsEarly)
	}
	data, err := s.page(ctx, uint32(off>>pageBits))
	if err != nil {
		return nil, err
	}
	in := int(off & (pageSize - 1))
	if in+n <= len(data) {
		return data[in : in+n : in+n], nil
	}
	if err := s.grow(n); err != nil {
		return nil, err
	}
	if n > 2*pageSize {
		s.request(off, int64(n))
		if err := s.load(ctx); err != nil {
			return nil, err
		}
	}
	s.span = s.span[:0]
	for len(s.span) < n {
		data, err := s.page(ctx, uint32(off>>pageBits))
		if err != nil {
			return nil, err
		}
		data = data[off&(pageSize-1):]
		data = data[:min(len(data), n-len(s.span))]
		s.span = append(s.span, data...)
		off += int64(len(data))
	}
	return s.span[:n:n], nil
}

// grow makes room for n bytes in span. They stay charged until the reader is closed.
func (s *pageSet) grow(n int) error {
	if n <= cap(s.span) {
		return nil
	}
	if err := s.reader.account.reserve(s.what, int64(n-cap(s.span))); err != nil {
		return err
	}
	s.span = make([]byte, 0, n)
	return nil
}

// A walk reads a part of a file sequentially.
type walk struct {
	set      *pageSet
	pos, end int64
	rest     []byte // rest of the page at pos, up to end
	ahead    int64  // bytes that are pinned at once
}

// start positions the walk at from; it reads nothing beyond to. ahead is the read-ahead in bytes.
func (w *walk) start(from, to, ahead int64) {
	w.pos, w.end, w.rest, w.ahead = from, to, nil, ahead
}

// seek positions the walk at pos. Within the page it is free.
func (w *walk) seek(pos int64) {
	if d := pos - w.pos; d >= 0 && d < int64(len(w.rest)) {
		w.rest = w.rest[d:]
	} else {
		w.rest = nil
	}
	w.pos = pos
}

// fill makes rest nonempty, unless the walk is at its end.
func (w *walk) fill(ctx context.Context) error {
	if len(w.rest) > 0 || w.pos >= w.end {
		return nil
	}
	n := uint32(w.pos >> pageBits)
	if k := len(w.set.pins); k == 0 || n > w.set.pins[k-1].page || n < w.set.pins[0].page {
		w.set.reset()
		w.set.request(w.pos, min(w.ahead, w.end-w.pos))
		if err := w.set.load(ctx); err != nil {
			return err
		}
	}
	data, err := w.set.page(ctx, n)
	if err != nil {
		return err
	}
	in := w.pos & (pageSize - 1)
	if in >= int64(len(data)) {
		return w.set.reader.block.corrupt(w.set.file.name, w.pos, endsEarly)
	}
	w.rest = data[in:min(int64(len(data)), in+w.end-w.pos)]
	return nil
}

// uvarint reads a number.
func (w *walk) uvarint(ctx context.Context) (uint64, error) {
	if len(w.rest) > 0 && w.rest[0] < 0x80 { // the common case
		v := w.rest[0]
		w.rest = w.rest[1:]
		w.pos++
		return uint64(v), nil
	}
	var v uint64
	for shift := uint(0); shift < 64; shift += 7 {
		if err := w.fill(ctx); err != nil {
			return 0, err
		}
		if len(w.rest) == 0 {
			return 0, w.corrupt(endsEarly)
		}
		c := w.rest[0]
		w.rest = w.rest[1:]
		w.pos++
		if c < 0x80 {
			if shift == 63 && c > 1 {
				break
			}
			return v | uint64(c)<<shift, nil
		}
		v |= uint64(c&0x7f) << shift
	}
	return 0, w.corrupt(badVarint)
}

// bytes reads n bytes, which are valid until the next call.
func (w *walk) bytes(ctx context.Context, n uint64) ([]byte, error) {
	if n <= uint64(len(w.rest)) {
		b := w.rest[:n:n]
		w.rest = w.rest[n:]
		w.pos += int64(n)
		return b, nil
	}
	if n > uint64(w.end-w.pos) {
		return nil, w.corrupt(badLength)
	}
	b, err := w.set.view(ctx, w.pos, int(n))
	if err != nil {
		return nil, err
	}
	w.pos += int64(n)
	w.rest = nil
	return b, nil
}

// skip skips n bytes.
func (w *walk) skip(n uint64) error {
	if n > uint64(w.end-w.pos) {
		return w.corrupt(badLength)
	}
	w.seek(w.pos + int64(n))
	return nil
}

func (w *walk) corrupt(reason string) error {
	return w.set.reader.block.corrupt(w.set.file.name, w.pos, reason)
}
