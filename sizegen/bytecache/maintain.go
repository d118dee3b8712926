package bytecache

import (
	"cmp"
	"iter"
	"slices"
)

// Delete removes k and reports whether it was present. A Load of k in progress will not store its value.
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

// DeleteFunc removes the entries for which del returns true and returns their number. It blocks writers, not
// readers, while it runs; del must not use the cache. Loads in progress will not store their values, which
// del might match.
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

// Clear removes all entries, and shrinks table and policy. Loads in progress will not store their values.
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

// Resize changes the capacity. To lower it, it first evicts the excess. It refuses a capacity that New would
// refuse, without any change.
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

// shrink replaces a table that is far too large for its entries.
func (c *Cache[K, V]) shrink() {
	if t := c.table.Load(); t.sparse() {
		c.rebuild(groupsFor(t.live))
	}
}

// All yields the entries, in no order. It takes no lock: entries added or removed while it runs may be
// yielded or not, each key at most once unless it is removed and added again.
func (c *Cache[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		c.table.Load().all(func(n *node[K, V]) bool { return yield(n.key, n.value) })
	}
}

// An Entry is one entry and its charged bytes.
type Entry[K comparable, V any] struct {
	Key   K
	Value V
	Bytes int64
}

// Largest returns the n entries with the most charged bytes, largest first.
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
