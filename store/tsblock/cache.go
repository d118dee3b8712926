package tsblock

import (
	"sync/atomic"

	"github.com/taredb/tare/sizegen/bytecache"
	"github.com/taredb/tare/sizegen/heapsize"
)

// pageSize is the unit in which files are cached, fetched and checked, in bytes: about as much as an object
// store delivers within the latency of a request, and some forty series of an index.
const pageSize = 1 << pageBits

const pageBits = 14

// minCacheBytes is the size of the smallest cache: some dozens of pages.
const minCacheBytes = 1 << 20

// A Cache caches pages of indexes, of index headers and of series hashes, of all blocks that share it, within
// a bound in true heap bytes; and where few series of a block are read, what was decoded from pages, and the chunks. It
// is safe for concurrent use.
type Cache struct {
	pages  *bytecache.Cache[pageKey, []byte]
	blocks atomic.Uint64 // last number assigned
}

// A pageKey identifies a page of a file.
type pageKey struct {
	block uint64
	page  uint32
	file  fileKind
}

// A fileKind is one of the files of a block that are read by pages.
type fileKind uint32

const (
	indexFile fileKind = iota
	headerFile
	hashesFile
	selectionFile // known selections of a block; the page is a hash of the matchers
	chunkFile     // and above, one for each chunk file: known chunks; the page is the offset
)

// NewCache returns an empty cache with a capacity of bytes, at least 1 MiB.
func NewCache(bytes int64) *Cache {
	c, err := bytecache.New(bytecache.Options[pageKey, []byte]{
		Capacity: max(bytes, minCacheBytes),
		// Block numbers are assigned here, so clients cannot choose keys that collide.
		Hash: func(k pageKey) uint64 {
			return (k.block<<34 ^ uint64(k.page)<<2 ^ uint64(k.file)) * 0x9E3779B97F4A7C15
		},
		Size: func(_ pageKey, page []byte) int64 { return int64(heapsize.Bytes(page)) },
	})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return &Cache{pages: c}
}

// Stats returns the counts of the cache, in pages and bytes.
func (c *Cache) Stats() bytecache.Stats { return c.pages.Stats() }

// block returns a number that no other block of the cache has ever had.
func (c *Cache) block() uint64 { return c.blocks.Add(1) }

// forget removes the pages of a block.
func (c *Cache) forget(block uint64) {
	c.pages.DeleteFunc(func(k pageKey, _ []byte) bool { return k.block == block })
}
