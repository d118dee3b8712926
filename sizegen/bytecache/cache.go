package bytecache

import (
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/taredb/tare/sizegen/heapsize"
)

// Options configures a cache. Capacity is required.
type Options[K comparable, V any] struct {
	// Capacity bounds the heap bytes of the cache, including entries, keys, table, policy and the Cache
	// itself.
	Capacity int64

	// Hash spreads the keys. It decides which keys share a group, so it must be keyed if untrusted parties
	// choose keys. Default: hash/maphash with a random seed.
	Hash func(K) uint64

	// Size returns the heap bytes that a key and a value own beyond their inline K and V, as counted by
	// heapsize; the inline part is charged with the entry. It is called once per Set: an entry's size is
	// fixed at insertion. Default: 0.
	Size func(K, V) int64

	// MaxEntry bounds the bytes charged for one entry, including its node; larger ones are refused. Default:
	// an eighth of the capacity, so that no single entry can displace more.
	MaxEntry int64

	// OnEvict is called for each entry that leaves, for any reason, after its removal and outside of all
	// locks. It may use the cache.
	OnEvict func(K, V, Reason)
}

// Cache maps keys to values, bounded by their true heap bytes. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	hash    func(K) uint64
	size    func(K, V) int64
	onEvict func(K, V, Reason)

	table atomic.Pointer[table[K, V]] // replaced under mu, read without it

	capacity atomic.Int64 // written under mu
	maxEntry atomic.Int64 // written under mu
	bytes    atomic.Int64 // written under mu
	epoch    atomic.Uint64

	nodeBytes  int64 // cost of a node
	fixedBytes int64 // cost of the cache without table and sketch
	maxDefault bool  // maxEntry follows the capacity

	counters []counters       // striped: hits and misses are counted without a lock
	calls    []callList[K, V] // Loads in progress, by hash
	waits    waits            // Loads that wait for them
	ownKey   func(K) K        // detaches a key that is cut from a longer text; nil: keys are not strings

	// mu serialises writers. Get does not take it.
	mu       sync.Mutex
	overhead int64 // fixedBytes, table and sketch
	lists    [segments]list[K, V]
	sketch   sketch
	gone     *node[K, V] // evicted entries not yet passed to OnEvict, linked by next
	written  writeCounts
}

// New returns an empty cache. It refuses a capacity that has no room for the cache's structures and one
// entry.
func New[K comparable, V any](o Options[K, V]) (*Cache[K, V], error) {
	c := &Cache[K, V]{hash: o.Hash, size: o.Size, onEvict: o.OnEvict}
	if c.hash == nil {
		seed := maphash.MakeSeed()
		c.hash = func(k K) uint64 { return maphash.Comparable(seed, k) }
	}
	if c.size == nil {
		c.size = func(K, V) int64 { return 0 }
	}
	if reflect.TypeFor[K]().Kind() == reflect.String {
		c.ownKey = detached[K]
	}
	stripes := 1
	for stripes < 2*runtime.GOMAXPROCS(0) && stripes < 64 {
		stripes *= 2
	}
	c.counters = make([]counters, stripes)
	c.calls = make([]callList[K, V], callLists)
	c.nodeBytes = int64(heapsize.Object(unsafe.Sizeof(node[K, V]{}), true))
	if o.MaxEntry != 0 && o.MaxEntry < c.nodeBytes {
		return nil, fmt.Errorf("bytecache: largest entry of %d bytes is too small: each takes %d bytes of overhead", o.MaxEntry, c.nodeBytes)
	}
	c.fixedBytes = int64(heapsize.Object(unsafe.Sizeof(*c), true) +
		heapsize.Array(uintptr(stripes), unsafe.Sizeof(counters{}), false) +
		heapsize.Array(callLists, unsafe.Sizeof(callList[K, V]{}), true))
	c.maxDefault = o.MaxEntry == 0
	if err := c.checkCapacity(o.Capacity); err != nil {
		return nil, err
	}
	c.setCapacity(o.Capacity, o.MaxEntry)
	c.reset()
	return c, nil
}

// ErrCapacity is wrapped by the errors of New and Resize for a capacity that is too small.
var ErrCapacity = errors.New("capacity is too small")

// checkCapacity returns an error if the capacity has no room for the empty structures and one entry.
func (c *Cache[K, V]) checkCapacity(capacity int64) error {
	least := c.fixedBytes + structureBytes[K, V](minGroups) + c.nodeBytes
	if capacity < least {
		return fmt.Errorf("bytecache: %w: %d bytes, and the least is %d (%d for its structures, %d of overhead per entry)",
			ErrCapacity, capacity, least, least-c.nodeBytes, c.nodeBytes)
	}
	return nil
}

func (c *Cache[K, V]) setCapacity(capacity, maxEntry int64) {
	c.capacity.Store(capacity)
	if c.maxDefault {
		maxEntry = max(capacity/8, c.nodeBytes)
	}
	c.maxEntry.Store(maxEntry)
}

// structureBytes returns the cost of table and sketch for a number of groups.
func structureBytes[K comparable, V any](groups int) int64 {
	return tableBytes[K, V](groups) + sketchBytes(groups)
}

// reset gives the cache an empty table, sketch and lists.
func (c *Cache[K, V]) reset() {
	c.table.Store(newTable[K, V](minGroups))
	c.sketch = newSketch(minGroups)
	c.lists = [segments]list[K, V]{}
	c.overhead = c.fixedBytes + structureBytes[K, V](minGroups)
	c.bytes.Store(c.overhead)
}

// detached returns a key of a string type, or a copy if it keeps a longer text alive.
func detached[K comparable](k K) K {
	s := *(*string)(unsafe.Pointer(&k))
	if heapsize.Pinned(s) <= heapsize.String(s) {
		return k
	}
	s = strings.Clone(s)
	return *(*K)(unsafe.Pointer(&s))
}

// hashOf mixes the result of the caller's hash, so that a weak one still fills all bits.
func (c *Cache[K, V]) hashOf(k K) uint64 {
	h := c.hash(k)
	h ^= h >> 32
	h *= 0x9E3779B97F4A7C15
	return h ^ h>>29
}

// Get returns the value of k. It does not allocate and takes no lock.
func (c *Cache[K, V]) Get(k K) (V, bool) {
	hash := c.hashOf(k)
	n := c.table.Load().find(hash, k)
	if n == nil {
		c.stripe().misses.Add(1)
		var zero V
		return zero, false
	}
	c.hit(n)
	return n.value, true
}

func (c *Cache[K, V]) hit(n *node[K, V]) {
	if n.visits.Load() < maxVisits {
		n.visits.Add(1)
	}
	c.stripe().hits.Add(1)
}

// Set sets the value of k to v and reports whether the cache accepted it. It refuses entries that exceed
// MaxEntry, and those that would displace more frequently requested ones. In both cases the previous value of
// k is removed. It makes one allocation, and one more for a key that is a string cut from a longer text: the cache keeps a
// copy.
func (c *Cache[K, V]) Set(k K, v V) bool {
	hash := c.hashOf(k)
	c.outdate(hash, k)
	return c.set(hash, k, v, nil)
}

// set stores a value, unless it comes from a call that has become outdated.
func (c *Cache[K, V]) set(hash uint64, k K, v V, from *call[K, V]) bool {
	owned := c.size(k, v)
	if owned < 0 {
		panic(fmt.Sprintf("BUG: the size of a cache entry is negative: %d", owned))
	}
	c.mu.Lock()
	defer c.unlock()
	if from != nil && (from.stale.Load() || from.epoch != c.epoch.Load()) {
		c.written.refusedStale++
		return false
	}
	old := c.table.Load().find(hash, k)
	if limit := c.maxEntry.Load(); owned > limit-c.nodeBytes {
		c.written.refusedLarge++
		if old != nil {
			c.drop(old, Replaced)
		}
		return false
	}
	c.sketch.add(hash, 1)
	if c.ownKey != nil {
		k = c.ownKey(k)
	}
	n := &node[K, V]{hash: hash, bytes: c.nodeBytes + owned, key: k, value: v}
	if old != nil {
		return c.replace(old, n)
	}
	c.ensureSlot()
	if !c.admit(n) {
		c.written.refusedPolicy++
		return false
	}
	c.charge(n.bytes)
	c.table.Load().insert(n)
	c.written.inserted++
	return true
}

// replace replaces old by n in the table and in the policy. If n is larger, other entries are evicted first.
// If that is not possible, old is removed too, and replace reports false.
func (c *Cache[K, V]) replace(old, n *node[K, V]) bool {
	s := old.segment
	c.unlink(old) // still in the table and in the account, but not a victim
	for c.excess(n) > old.bytes {
		v := c.victim()
		if v == nil {
			c.drop(old, Replaced)
			c.written.refusedPolicy++
			return false
		}
		c.drop(v, Capacity)
	}
	c.link(n, s)
	grown := n.bytes - old.bytes
	c.charge(max(grown, 0))
	c.table.Load().replace(old, n)
	c.charge(min(grown, 0))
	c.evicted(old, Replaced)
	c.written.replaced++
	return true
}

// charge changes the account by n bytes. Bytes are added before readers can reach them, and subtracted after
// readers no longer can, so that the account is never too low.
func (c *Cache[K, V]) charge(n int64) {
	have := c.bytes.Add(n)
	if invariants && n > 0 && have > c.capacity.Load() {
		panic(fmt.Sprintf("BUG: cache is charged %d bytes of at most %d", have, c.capacity.Load()))
	}
}

// drop removes n from the table, from its segment, and from the account.
func (c *Cache[K, V]) drop(n *node[K, V], why Reason) {
	c.table.Load().remove(n)
	if n.segment != unlinked {
		c.unlink(n)
	}
	c.charge(-n.bytes)
	c.evicted(n, why)
}

// evicted counts n and keeps it for OnEvict.
func (c *Cache[K, V]) evicted(n *node[K, V], why Reason) {
	c.written.evicted[why]++
	if c.onEvict != nil {
		n.reason = why
		n.next, c.gone = c.gone, n
	}
}

// unlock ends a write, and passes the removed entries to OnEvict.
func (c *Cache[K, V]) unlock() {
	if invariants {
		c.checkAccount()
	}
	gone := c.gone
	c.gone = nil
	c.mu.Unlock()
	for gone != nil {
		n := gone
		gone, n.next = n.next, nil
		c.onEvict(n.key, n.value, n.reason)
	}
}

// ensureSlot makes room in the table for one more node: it rebuilds the table in its size if deleted slots
// fill it, otherwise in twice its size, which may evict entries.
func (c *Cache[K, V]) ensureSlot() {
	t := c.table.Load()
	for t.free == 0 {
		groups := len(t.groups)
		if need := groupsFor(t.live + 1); need > groups || t.sparse() {
			groups = need
		}
		more := structureBytes[K, V](groups) - structureBytes[K, V](len(t.groups))
		if c.bytes.Load()+more <= c.capacity.Load() {
			c.rebuild(groups)
			return
		}
		c.drop(c.victim(), Capacity)
	}
}

// rebuild moves all nodes into a table with a number of groups, and resizes the sketch.
func (c *Cache[K, V]) rebuild(groups int) {
	old := c.table.Load()
	t := newTable[K, V](groups)
	old.all(func(n *node[K, V]) bool {
		t.insert(n)
		return true
	})
	more := structureBytes[K, V](groups) - structureBytes[K, V](len(old.groups))
	c.charge(max(more, 0))
	c.table.Store(t)
	if groups != len(old.groups) {
		c.sketch = c.sketch.resized(groups)
	}
	c.overhead += more
	c.charge(min(more, 0))
}

// checkAccount panics if the parts of the account do not add up.
func (c *Cache[K, V]) checkAccount() {
	sum := c.overhead
	for i := range c.lists {
		sum += c.lists[i].bytes
	}
	switch have := c.bytes.Load(); {
	case sum != have:
		panic(fmt.Sprintf("BUG: cache accounts for %d bytes and its lists hold %d", have, sum))
	case have > c.capacity.Load():
		panic(fmt.Sprintf("BUG: cache holds %d bytes of at most %d", have, c.capacity.Load()))
	}
}

// Bytes returns the heap bytes of the cache including its structures: the bytes that become free when the
// cache is dropped. It is exact at any time and costs one atomic load.
func (c *Cache[K, V]) Bytes() int64 { return c.bytes.Load() }

// Len returns the number of entries.
func (c *Cache[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table.Load().live
}

// Capacity returns the upper bound of Bytes.
func (c *Cache[K, V]) Capacity() int64 { return c.capacity.Load() }
