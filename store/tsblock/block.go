package tsblock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/diskcache"
	"github.com/taredb/tare/internal/store/sharedcache"
)

// Options are shared by the blocks of a process, except ChunkFiles. Cache, Pool, Entries and LocalDir are required.
type Options struct {
	Cache   *Cache
	Pool    *slab.Pool
	Entries *Entries

	// Disk stores pages of indexes and chunk files. Default: none.
	Disk *diskcache.Cache

	// Shared stores the same pages in memcached servers; it is read after Disk. Default: none.
	Shared *sharedcache.Cache

	// LocalDir contains index headers and series hashes, in one directory per block that is named like its
	// prefix. Two processes must not share it.
	LocalDir string

	// Loads bounds, by its capacity, the concurrent builds and loads of index headers and series hashes of
	// all blocks that share it. Default: no bound.
	Loads chan struct{}

	// ChunkFiles is the number of the block's chunk files. References to others are corrupt. 0: unknown.
	ChunkFiles int

	// Log receives warnings about damaged local files, which are rebuilt. Default: none.
	Log *slog.Logger
}

// validate returns an error if a required option is missing.
func (o *Options) validate() error {
	switch {
	case o.Cache == nil:
		return errors.New("a block needs a cache")
	case o.Pool == nil || o.Entries == nil:
		return errors.New("a block needs pools of slabs and of entries")
	case o.LocalDir == "":
		return errors.New("a block needs a local directory for its index header")
	}
	return nil
}

// A Block is one TSDB block in a bucket. It is safe for concurrent use. Its index header is loaded on first
// use; before that a block takes little memory.
type Block struct {
	source  Source
	prefix  string // of its objects, without the trailing slash
	dir     string // of its local files
	meta    *Meta
	options Options
	number  uint64 // identifies the block in the cache

	header lazyFile[header]
	hashes lazyFile[hashes]
	used   atomic.Bool            // since the last call of UnloadIdle
	whole  atomic.Pointer[[]byte] // the index while its header is built, if it is small

	lengths chunkLengths

	repair sync.Mutex // locked while a damaged local file is removed

	mu     sync.Mutex
	refs   int // number of readers and batches
	closed bool
	remove bool // the last reference removes the local files
}

// New returns the block whose objects have names of prefix and a slash, and whose meta.json was parsed into
// m. It reads nothing.
func New(source Source, prefix string, m *Meta, o Options) (*Block, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if id := path.Base(prefix); id != m.ULID.String() {
		return nil, fmt.Errorf("open block %s: its meta.json is that of %s", prefix, m.ULID)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	b := &Block{
		source: source, prefix: prefix, meta: m, options: o,
		dir:    filepath.Join(o.LocalDir, filepath.FromSlash(prefix)),
		number: o.Cache.block(),
	}
	b.header.load = b.loadHeader
	b.hashes.load = b.loadHashes
	return b, nil
}

// Meta returns the block's meta.json. The caller must not change it.
func (b *Block) Meta() *Meta { return b.meta }

// Prefix returns the prefix of the names of the block's objects, without the slash.
func (b *Block) Prefix() string { return b.prefix }

// Load loads the index header, from its local file or, if that is missing, damaged or out of date, from
// ranges of the index, and then writes the file. Concurrent callers share one load, which is cancelled when
// the last of them gives up. A Reader calls Load as needed.
func (b *Block) Load(ctx context.Context) error {
	b.used.Store(true)
	_, err := b.header.get(ctx, b.options.Loads)
	return err
}

// Loaded reports whether the index header is in memory.
func (b *Block) Loaded() bool { return b.header.now.Load() != nil }

// Unload frees the index header and the series hashes. Open readers keep theirs; the next reader loads them
// again.
func (b *Block) Unload() {
	b.header.drop()
	b.hashes.drop()
}

// UnloadIdle unloads the block if no Reader was opened since the previous call, and reports whether it was
// loaded.
func (b *Block) UnloadIdle() bool {
	if b.used.Swap(false) || !b.Loaded() {
		return false
	}
	b.Unload()
	return true
}

// Close closes the block: new readers return errClosed. Open readers and batches stay usable; when the last
// of them is closed, the block's pages leave the cache.
func (b *Block) Close() { b.close(false) }

// Remove closes the block, and removes its local files when the last reader is closed.
func (b *Block) Remove() { b.close(true) }

func (b *Block) close(remove bool) {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	b.remove = b.remove || remove
	idle := b.refs == 0
	b.mu.Unlock()
	if idle && (first || remove) {
		b.finish()
	}
}

// retain adds a reference and reports whether the block is open.
func (b *Block) retain() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refs++
	return !b.closed
}

func (b *Block) release() {
	b.mu.Lock()
	b.refs--
	if b.refs < 0 {
		panic("BUG: block let go more often than held")
	}
	last := b.refs == 0 && b.closed
	b.mu.Unlock()
	if last {
		b.finish()
	}
}

// finish frees the resources of a closed block without references.
func (b *Block) finish() {
	b.Unload()
	b.options.Cache.forget(b.number)
	b.mu.Lock()
	remove := b.remove
	b.mu.Unlock()
	if remove {
		if disk := b.options.Disk; disk != nil {
			disk.Forget(diskcache.BlockOf(b.prefix))
		}
		if err := removeLocal(b.dir); err != nil {
			b.options.Log.Warn("local files of a block are left", "block", b.prefix, "error", err)
		}
	}
}

// object returns the name of one of the block's objects.
func (b *Block) object(file string) string { return b.prefix + "/" + file }

// corrupt returns the error for bytes that cannot be decoded.
func (b *Block) corrupt(file string, offset int64, reason string) error {
	return &CorruptError{Block: b.prefix, File: file, Offset: offset, Reason: reason}
}

func (b *Block) closedError() error { return fmt.Errorf("block %s: %w", b.prefix, errClosed) }

// failed wraps err with the block and the operation.
func (b *Block) failed(doing string, err error) error {
	return fmt.Errorf("block %s: %s: %w", b.prefix, doing, err)
}
