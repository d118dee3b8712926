package cache

import (
	"container/list"
	"encoding/binary"
	"sync"

	"github.com/maypok86/otter/v2"
	"vitess.io/vitess/go/cache/theine"

	"github.com/taredb/tare/sizegen/bytecache"
	"github.com/taredb/tare/sizegen/heapsize"
)

// A key has 32 bytes, like that of a plan. It is Vitess' key type, so that all subjects hash the same.
type key = theine.HashKey256

func makeKey(n uint64) key {
	var k key
	for i := range 4 {
		n = (n ^ n>>31) * 0x9E3779B97F4A7C15
		binary.LittleEndian.PutUint64(k[8*i:], n^n>>29)
	}
	return k
}

// A plan owns a slice of bytes.
type plan struct{ body []byte }

// CachedSize returns the size by which Vitess' cache bounds itself.
func (p *plan) CachedSize(bool) int64 {
	return int64(heapsize.Object(24, true) + heapsize.Bytes(p.body))
}

// A subject is a cache under comparison. Its capacity is in bytes by its own accounting.
type subject struct {
	name string
	make func(capacity int64) cache
}

type cache interface {
	get(k key) bool
	set(k key, p *plan)
	settle() // waits for background work
	close()
}

var subjects = []subject{
	{"bytecache", newTare},
	{"otter", newOtter},
	{"theine", newTheine},
	{"lru", newLRU},
}

type tareCache struct {
	*bytecache.Cache[key, *plan]
}

func newTare(capacity int64) cache {
	c, err := bytecache.New(bytecache.Options[key, *plan]{
		Capacity: capacity,
		Hash:     func(k key) uint64 { return binary.LittleEndian.Uint64(k[:]) },
		Size:     func(_ key, p *plan) int64 { return p.CachedSize(true) },
	})
	if err != nil {
		panic(err)
	}
	return tareCache{c}
}

func (c tareCache) get(k key) bool     { _, ok := c.Get(k); return ok }
func (c tareCache) set(k key, p *plan) { c.Set(k, p) }
func (c tareCache) settle()            {}
func (c tareCache) close()             {}

type otterCache struct{ *otter.Cache[key, *plan] }

func newOtter(capacity int64) cache {
	return otterCache{otter.Must(&otter.Options[key, *plan]{
		MaximumWeight: uint64(capacity),
		Weigher:       func(k key, p *plan) uint32 { return uint32(len(k)) + uint32(p.CachedSize(true)) },
	})}
}

func (c otterCache) get(k key) bool     { _, ok := c.GetIfPresent(k); return ok }
func (c otterCache) set(k key, p *plan) { c.Set(k, p) }
func (c otterCache) settle()            { c.CleanUp() }
func (c otterCache) close()             { c.InvalidateAll() }

type theineCache struct {
	*theine.Store[key, *plan]
}

func newTheine(capacity int64) cache {
	// With the doorkeeper, as in vtgate and vttablet.
	return theineCache{theine.NewStore[key, *plan](capacity, true)}
}

func (c theineCache) get(k key) bool     { _, ok := c.Get(k, 0); return ok }
func (c theineCache) set(k key, p *plan) { c.Set(k, p, 0, 0) }
func (c theineCache) settle()            {}
func (c theineCache) close()             { c.Close() }

// An lruCache is a textbook LRU cache: a map, a list, a lock.
type lruCache struct {
	mu              sync.Mutex
	capacity, bytes int64
	order           *list.List
	entries         map[key]*list.Element
}

type lruEntry struct {
	key  key
	plan *plan
}

func newLRU(capacity int64) cache {
	return &lruCache{capacity: capacity, order: list.New(), entries: make(map[key]*list.Element)}
}

func (c *lruCache) get(k key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[k]
	if ok {
		c.order.MoveToFront(e)
	}
	return ok
}

func (c *lruCache) set(k key, p *plan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[k]; ok {
		c.bytes += p.CachedSize(true) - e.Value.(*lruEntry).plan.CachedSize(true)
		e.Value.(*lruEntry).plan = p
	} else {
		c.entries[k] = c.order.PushFront(&lruEntry{k, p})
		c.bytes += 32 + p.CachedSize(true)
	}
	for c.bytes > c.capacity {
		last := c.order.Back()
		e := c.order.Remove(last).(*lruEntry)
		delete(c.entries, e.key)
		c.bytes -= 32 + e.plan.CachedSize(true)
	}
}

func (c *lruCache) settle() {}
func (c *lruCache) close()  {}
