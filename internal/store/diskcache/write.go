package diskcache

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"github.com/taredb/tare/internal/panics"
)

// maxQueued bounds the pages that wait to be written: 8 MiB.
const maxQueued = 512

// An insertion is a page to be written, or a slot whose header is to be erased.
type insertion struct {
	erase  bool
	slot   uint64 // to be erased
	object Object
	number uint32
	page   []byte // in data
	header [headerSize]byte
	stored [headerSize]byte // the header of the slot before the write
	data   [PageSize]byte
}

// Set stores a page later: a copy is written by another goroutine. A page shorter than PageSize states that the
// object ends there. Set does not wait: without room in the queue, or after a failed write, it drops the page.
func (c *Cache) Set(o Object, page uint32, data []byte) {
	if len(data) > PageSize {
		panic(fmt.Sprintf("BUG: a page of %d bytes", len(data)))
	}
	w := c.insertion()
	if w == nil {
		c.counts.dropped.Add(1)
		return
	}
	w.erase, w.object, w.number = false, o, page
	w.page = w.data[:copy(w.data[:], data)]
	c.enqueue(w)
}

func (c *Cache) enqueue(w *insertion) {
	c.counts.queued.Add(1)
	c.queue <- w // has room for all insertions that exist
}

// insertion returns an idle insertion, nil if there is none or nothing can be written now.
func (c *Cache) insertion() *insertion {
	if c.tags == nil || c.pausing() {
		return nil
	}
	select {
	case w := <-c.spare:
		return w
	default:
	}
	if c.made.Add(1) > maxQueued {
		c.made.Add(-1)
		return nil
	}
	return new(insertion)
}

// pausing reports whether nothing is to be written, because a write has failed a short time ago.
func (c *Cache) pausing() bool {
	return c.failing.Load() && c.options.Now().UnixNano() < c.retryAt.Load()
}

// run writes insertions and removes forgotten blocks until the cache is closed.
func (c *Cache) run() {
	for {
		select {
		case w := <-c.queue:
			c.write(w)
		case <-c.wake:
			c.report(panics.Guard(c.removeForgotten))
		case <-c.stop:
			for len(c.queue) > 0 {
				c.write(<-c.queue)
			}
			return
		}
	}
}

// write executes an insertion and makes it idle. Those that were queued when a write failed are dropped: on a full
// disk, some would succeed.
func (c *Cache) write(w *insertion) {
	if c.pausing() {
		c.counts.dropped.Add(1)
	} else {
		c.report(panics.Guard(func() error {
			if w.erase {
				return c.eraseEmpty(w.slot)
			}
			return c.insert(w)
		}))
	}
	c.counts.queued.Add(-1)
	c.spare <- w
}

// report turns insertion off after a failed write, and on after one that succeeded.
func (c *Cache) report(err error) {
	if err == nil {
		if c.failing.Swap(false) {
			c.options.Log.Info("disk cache stores pages again", "dir", c.options.Dir)
		}
		return
	}
	c.counts.errors.Add(1)
	c.retryAt.Store(c.options.Now().Add(c.options.RetryAfter).UnixNano())
	if !c.failing.Swap(true) {
		c.options.Log.Warn("disk cache stores no pages: write failed", "dir", c.options.Dir, "retry_after", c.options.RetryAfter, "err", err)
	}
}

// insert writes a page to a slot of its set, unless it is there.
func (c *Cache) insert(w *insertion) error {
	h := header{length: uint32(len(w.page)), page: w.number, object: w.object}
	h.encode(&w.header)
	binary.LittleEndian.PutUint32(w.header[:], checksum(&w.header, w.page))
	number, t := w.object.locate(w.number, uint64(len(c.sets)))

	c.mu.Lock()
	defer c.mu.Unlock()
	slot, found := c.find(number, t)
	if !found {
		slot = c.victim(number)
	} else if _, err := c.file.ReadAt(w.stored[:], headerAt(slot)); err == nil && w.stored == w.header {
		return nil
	}
	if old := tag(c.tags[slot].Load()); old != 0 && c.clear(slot, old) && !found {
		c.counts.evictions.Add(1)
	}
	return c.store(slot, t, w)
}

// store writes a page to an empty slot. A reader of the slot's former page fails and finds the version changed.
func (c *Cache) store(slot uint64, t tag, w *insertion) error {
	s := &c.sets[slot/ways]
	s.version.Add(1)
	defer s.version.Add(1)
	if err := c.eraseHeader(slot); err != nil {
		return err
	}
	if _, err := c.file.WriteAt(w.page, pageAt(slot, c.slots)); err != nil {
		return err
	}
	if _, err := c.file.WriteAt(w.header[:], headerAt(slot)); err != nil {
		return err
	}
	s.used.And(^(uint32(1) << (slot % ways)))
	c.tags[slot].Store(uint64(t))
	c.counts.entries.Add(1)
	c.counts.insertions.Add(1)
	return nil
}

var noHeader [headerSize]byte

// eraseHeader makes a killed process leave no header with the page of another.
func (c *Cache) eraseHeader(slot uint64) error {
	_, err := c.file.WriteAt(noHeader[:], headerAt(slot))
	return err
}

// eraseEmpty erases the header of a slot, unless it has a page again.
func (c *Cache) eraseEmpty(slot uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tags[slot].Load() != 0 {
		return nil
	}
	return c.eraseHeader(slot)
}

// victim returns an empty slot of the set, or else one that was not read since the previous eviction.
func (c *Cache) victim(number uint64) uint64 {
	first := number * ways
	for slot := first; slot < first+ways; slot++ {
		if c.tags[slot].Load() == 0 {
			return slot
		}
	}
	s := &c.sets[number]
	start := int(s.version.Load() / 2 % ways) // advances with each write
	unused := uint16(^s.used.Load())
	if unused == 0 {
		s.used.Store(0)
		return first + uint64(start)
	}
	skip := bits.TrailingZeros16(bits.RotateLeft16(unused, -start))
	return first + uint64((start+skip)%ways)
}

// Forget removes the pages of a block later.
func (c *Cache) Forget(b Block) {
	if c.tags == nil {
		return
	}
	c.forgetting.Lock()
	c.forgotten[b.tag()] = struct{}{}
	c.forgetting.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *Cache) removeForgotten() error {
	c.forgetting.Lock()
	gone := c.forgotten
	c.forgotten = make(map[uint32]struct{})
	c.forgetting.Unlock()
	return c.remove(func(block uint32) bool { _, ok := gone[block]; return ok })
}

// Retain removes the pages of all other blocks.
func (c *Cache) Retain(blocks []Block) {
	if c.tags == nil {
		return
	}
	kept := make([]uint32, len(blocks))
	for i := range blocks {
		kept[i] = blocks[i].tag()
	}
	slices.Sort(kept)
	c.report(c.remove(func(block uint32) bool { _, ok := slices.BinarySearch(kept, block); return !ok }))
}

// remove removes the pages of blocks for which gone returns true. After a failed write the rest is removed by the
// next start.
func (c *Cache) remove(gone func(block uint32) bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for slot := range c.slots {
		t := tag(c.tags[slot].Load())
		if t == 0 || !gone(t.block()) || !c.clear(slot, t) {
			continue
		}
		c.counts.removed.Add(1)
		if err := c.eraseHeader(slot); err != nil {
			return err
		}
	}
	return nil
}
