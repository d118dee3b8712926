package diskcache

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a Cache. Dir, Bytes and Log are required.
type Options struct {
	Dir   string // created with mode 0700; locked while the cache is open
	Bytes int64  // bound of the disk space, at least MinBytes
	Log   *slog.Logger

	RetryAfter time.Duration    // pause of insertion after a failed write; default: a minute
	Now        func() time.Time // default: time.Now

	storage func(*os.File) storage // for tests
}

// A Cache is a file of pages. It is safe for concurrent use. Only Open, Close and Retain wait for the disk to
// write.
type Cache struct {
	options Options
	lock    *os.File
	file    storage // nil: the disk failed when the cache was opened
	slots   uint64
	tags    []atomic.Uint64 // by slot
	sets    []set
	scratch sync.Pool // of *scratch

	queue  chan *insertion
	spare  chan *insertion // written, for reuse
	made   atomic.Int64    // insertions allocated, at most maxQueued
	wake   chan struct{}   // capacity 1: forgotten is not empty
	stop   chan struct{}
	writer sync.WaitGroup

	mu sync.Mutex // locked while slots are written

	forgetting sync.Mutex
	forgotten  map[uint32]struct{} // tags of blocks

	failing atomic.Bool
	retryAt atomic.Int64 // while failing: when to write again, nanoseconds since 1970

	counts counts
}

// A set is the state of 16 consecutive slots.
type set struct {
	version atomic.Uint32 // odd while a slot of the set is written
	used    atomic.Uint32 // a bit per slot that was read since the last eviction considered it
}

// A scratch is the memory of one read.
type scratch struct {
	header [headerSize]byte
	page   [PageSize]byte
}

// Open opens the cache in a directory, with the pages that an earlier process stored. It fails if another
// process uses the directory. If the disk is full, read-only or broken, it logs a warning and returns a cache
// without pages.
func Open(o Options) (*Cache, error) {
	slots, err := slotsFor(o.Bytes)
	if err != nil {
		return nil, err
	}
	o.RetryAfter = cmp.Or(o.RetryAfter, time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Cache{
		options: o, slots: slots,
		queue: make(chan *insertion, maxQueued), spare: make(chan *insertion, maxQueued),
		wake: make(chan struct{}, 1), stop: make(chan struct{}),
		forgotten: make(map[uint32]struct{}),
	}
	c.scratch.New = func() any { return new(scratch) }
	if err := c.open(); err != nil {
		err = errors.Join(err, c.closeFiles())
		if !diskFailed(err) {
			return nil, err
		}
		o.Log.Warn("disk cache off until the next start", "dir", o.Dir, "err", err)
		c.file, c.tags = nil, nil
		return c, nil
	}
	c.writer.Go(c.run)
	return c, nil
}

func (c *Cache) open() (err error) {
	if c.lock, err = lockDir(c.options.Dir); err != nil {
		return err
	}
	f, emptied, err := openPages(c.options.Dir, c.slots)
	if err != nil {
		return err
	}
	if emptied {
		c.options.Log.Info("disk cache emptied: its file has another size or is damaged", "dir", c.options.Dir)
	}
	c.file = f
	if c.options.storage != nil {
		c.file = c.options.storage(f)
	}
	c.tags = make([]atomic.Uint64, c.slots)
	c.sets = make([]set, c.slots/ways)
	return c.loadTags()
}

// loadTags reads the table of headers. The pages are checked when they are read.
func (c *Cache) loadTags() error {
	piece := make([]byte, min(1<<20, int64(c.slots)*headerSize))
	for slot := uint64(0); slot < c.slots; {
		n := min(uint64(len(piece))/headerSize, c.slots-slot)
		if _, err := c.file.ReadAt(piece[:n*headerSize], headerAt(slot)); err != nil {
			return fmt.Errorf("read disk cache in %s: %w", c.options.Dir, err)
		}
		for i := range n {
			c.loadTag(slot+i, piece[i*headerSize:])
		}
		slot += n
	}
	return nil
}

func (c *Cache) loadTag(slot uint64, encoded []byte) {
	var h header
	if !h.decode(encoded) {
		return
	}
	set, t := h.object.locate(h.page, uint64(len(c.sets)))
	if set != slot/ways {
		return // damaged: no lookup would find it
	}
	c.tags[slot].Store(uint64(t))
	c.counts.entries.Add(1)
}

// Close writes the pages that are queued and closes the file. Later reads fail, which makes them misses.
func (c *Cache) Close() error {
	if c.file == nil {
		return nil
	}
	close(c.stop)
	c.writer.Wait()
	return c.closeFiles()
}

func (c *Cache) closeFiles() (err error) {
	if c.file != nil {
		err = c.file.Close()
	}
	if c.lock != nil {
		err = errors.Join(err, c.lock.Close())
	}
	return err
}

// Probe reports whether Get is likely to find the page. If not, it counts a miss. It reads nothing from disk.
func (c *Cache) Probe(o Object, page uint32) bool {
	set, t := o.locate(page, uint64(len(c.sets)))
	if _, ok := c.find(set, t); ok {
		return true
	}
	c.counts.misses.Add(1)
	return false
}

// Get copies the start of a page to dst, at most PageSize bytes. It returns fewer than len(dst) bytes only if the
// object ends there, and false if the page is not in the cache.
func (c *Cache) Get(o Object, page uint32, dst []byte) (n int, ok bool) {
	if n, ok = c.get(o, page, dst); ok {
		c.counts.hits.Add(1)
	} else {
		c.counts.misses.Add(1)
	}
	return n, ok
}

func (c *Cache) get(o Object, page uint32, dst []byte) (n int, ok bool) {
	number, t := o.locate(page, uint64(len(c.sets)))
	slot, ok := c.find(number, t)
	if !ok {
		return 0, false
	}
	s := &c.sets[number]
	version := s.version.Load()
	n, err := c.read(slot, o, page, dst)
	switch {
	case err == nil:
		if bit := uint32(1) << (slot % ways); s.used.Load()&bit == 0 {
			s.used.Or(bit)
		}
		return n, true
	case version&1 != 0 || s.version.Load() != version:
		return 0, false // another page is being written there
	case !c.discard(slot, t):
		return 0, false // it was removed meanwhile
	case errors.Is(err, errDamaged):
		c.counts.damaged.Add(1)
	default:
		c.counts.errors.Add(1)
	}
	return 0, false
}

// find returns the slot of the set that has the tag.
func (c *Cache) find(set uint64, t tag) (slot uint64, ok bool) {
	if c.tags == nil {
		return 0, false
	}
	for slot = set * ways; slot < (set+1)*ways; slot++ {
		if c.tags[slot].Load() == uint64(t) {
			return slot, true
		}
	}
	return 0, false
}

// clear removes the tag from its slot, if the slot still has it.
func (c *Cache) clear(slot uint64, t tag) bool {
	if !c.tags[slot].CompareAndSwap(uint64(t), 0) {
		return false
	}
	c.counts.entries.Add(-1)
	return true
}

// discard removes the tag from its slot, if the slot still has it, and queues the erasure of its header.
func (c *Cache) discard(slot uint64, t tag) bool {
	if !c.clear(slot, t) {
		return false
	}
	if w := c.insertion(); w != nil {
		w.erase, w.slot = true, slot
		c.enqueue(w)
	}
	return true
}

// errDamaged reports a slot whose contents are not a page of the wanted key, or fail the checksum.
var errDamaged = errors.New("the page is damaged")

// read copies the page of a slot to dst after it has checked the key and the checksum.
func (c *Cache) read(slot uint64, o Object, page uint32, dst []byte) (n int, err error) {
	s := c.scratch.Get().(*scratch)
	defer c.scratch.Put(s)
	if err := c.readAt(s.header[:], headerAt(slot)); err != nil {
		return 0, err
	}
	var h header
	if !h.decode(s.header[:]) || h.object != o || h.page != page {
		return 0, errDamaged
	}
	whole := s.page[:h.length]
	if int(h.length) <= len(dst) {
		whole = dst[:h.length]
	}
	if err := c.readAt(whole, pageAt(slot, c.slots)); err != nil {
		return 0, err
	}
	if checksum(&s.header, whole) != h.sum {
		return 0, errDamaged
	}
	return copy(dst, whole), nil
}

// readAt fills dst. A file that ends before is a damaged one.
func (c *Cache) readAt(dst []byte, off int64) error {
	n, err := c.file.ReadAt(dst, off)
	switch {
	case n == len(dst):
		return nil
	case err == io.EOF: //nolint:errorlint // wrapped, it is an error of reading and no end
		return errDamaged
	}
	return err
}

// Delete removes a page. The caller has found it wrong.
func (c *Cache) Delete(o Object, page uint32) {
	set, t := o.locate(page, uint64(len(c.sets)))
	if slot, ok := c.find(set, t); ok {
		c.discard(slot, t)
	}
}
