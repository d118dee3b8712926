package bytecache

import (
	"cmp"
	"iter"
	"slices"
)

// Delete removes k and reports whether it was there. A Load of k under way will not store what
// it makes.
func (c *Cache[K, V]) Delete(k K) bool {
	hash := c.hashOf(k)
	c.outdate(hash, k)
	c.mu.Lock()
	defer c.unlock()
	n := c.table.Load().find(hash, k)
	if n == nil {
		return false
	}
	c.drop(n, Deleted)
	return true
}

// DeleteFunc removes the entries for which del returns true and returns how many there were. It
// holds back writers, not readers, while it runs; del must not use the cache. Loads under
// way will not store what they make: it could be what del is to remove.
func (c *Cache[K, V]) DeleteFunc(del func(K, V) bool) int {
	c.mu.Lock()
	defer c.unlock()
	c.epoch.Add(1)
	deleted := 0
	c.table.Load().all(func(n *node[K, V]) bool {
		if del(n.key, n.value) {
			c.drop(n, Deleted)
			deleted++
		}
		return true
	})
	c.shrink()
	return deleted
}

// Clear removes all entries, and gives back what table and policy had grown to. Loads under way
// will not store what they make.
func (c *Cache[K, V]) Clear() {
	c.mu.Lock()
	defer c.unlock()
	c.epoch.Add(1)
	c.table.Load().all(func(n *node[K, V]) bool {
		c.evicted(n, Cleared)
		return true
	})
	c.reset()
}

// Resize changes the capacity, and evicts what no longer fits before it lowers it. It refuses a
// capacity that New would refuse and changes nothing then.
func (c *Cache[K, V]) Resize(capacity int64) error {
	c.mu.Lock()
	defer c.unlock()
	if err := c.checkCapacity(capacity); err != nil {
		return err
	}
	for c.bytes.Load() > capacity {
		if c.shrink(); c.bytes.Load() <= capacity {
			break
		}
		v := c.victim()
		if v == nil {
			panic("BUG: an empty cache is larger than the least capacity")
		}
		c.drop(v, Capacity)
	}
	c.setCapacity(capacity, c.maxEntry.Load())
	c.trimProtected()
	return nil
}

// shrink gives back a table that is far too large for what it holds.
func (c *Cache[K, V]) shrink() {
	if t := c.table.Load(); t.sparse() {
		c.rebuild(groupsFor(t.live))
	}
}

// All yields the entries, in no order. It takes no lock: entries that come or go while it runs
// may be seen or not, each key at most once unless it comes back meanwhile.
func (c *Cache[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		c.table.Load().all(func(n *node[K, V]) bool { return yield(n.key, n.value) })
	}
}

// An Entry is one entry and what it is charged.
type Entry[K comparable, V any] struct {
	Key   K
	Value V
	Bytes int64
}

// Largest returns the entries charged most, at most n, largest first.
func (c *Cache[K, V]) Largest(n int) []Entry[K, V] {
	if n <= 0 {
		return nil
	}
	top := make([]Entry[K, V], 0, n+1)
	c.table.Load().all(func(e *node[K, V]) bool {
		if len(top) == n && e.bytes <= top[n-1].Bytes {
			return true
		}
		at, _ := slices.BinarySearchFunc(top, e.bytes, func(t Entry[K, V], b int64) int { return cmp.Compare(b, t.Bytes) })
		top = slices.Insert(top, at, Entry[K, V]{e.key, e.value, e.bytes})
		top = top[:min(len(top), n)]
		return true
	})
	return top
}
