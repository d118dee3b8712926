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

	"github.com/taredb/tare/slab"
)

// Options are what blocks of one process share. Cache, Pool, Entries and LocalDir are required.
type Options struct {
	Cache   *Cache
	Pool    *slab.Pool
	Entries *Entries

	// LocalDir is where index headers and series hashes are kept, in a directory for each
	// block that is named as its prefix. Two processes must not share it.
	LocalDir string

	// Loads bounds, by its capacity, how many index headers and series hashes are built and
	// loaded at once over all blocks that share it. Default: no bound.
	Loads chan struct{}

	// Log is told of damaged local files, which are built anew. Default: nobody.
	Log *slog.Logger
}

// Validate returns what is missing.
func (o *Options) Validate() error {
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

// A Block is one TSDB block in a bucket. It is safe for concurrent use, and costs little until
// it is first read: its index header is loaded then.
type Block struct {
	source  Source
	prefix  string // of its objects, without the slash
	dir     string // of its local files
	meta    *Meta
	options Options
	number  uint64 // in the cache

	header lazyFile[header]
	hashes lazyFile[hashes]
	used   atomic.Bool // since the last call of UnloadIdle

	lengths chunkLengths

	repair sync.Mutex // held while a damaged local file is removed

	mu     sync.Mutex
	refs   int // readers and batches
	closed bool
	remove bool // local files go with the last of them
}

// New returns the block whose objects begin with prefix and a slash and whose meta.json has been read.
// It reads nothing.
func New(source Source, prefix string, m *Meta, o Options) (*Block, error) {
	if err := o.Validate(); err != nil {
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

// Meta returns what the block's meta.json says. It is not to be changed.
func (b *Block) Meta() *Meta { return b.meta }

// Prefix returns what the names of the block's objects begin with, before the slash.
func (b *Block) Prefix() string { return b.prefix }

// Load loads the index header, from its local file or, if that is not there, damaged or
// out of date, from ranges of the index, from which the file is then made. Callers at the same time share
// one load, which goes on until the last of them has left. A Reader loads by itself.
func (b *Block) Load(ctx context.Context) error {
	b.used.Store(true)
	_, err := b.header.get(ctx, b.options.Loads)
	return err
}

// Loaded reports whether the index header is in memory.
func (b *Block) Loaded() bool { return b.header.now.Load() != nil }

// Unload frees the index header and what goes with it. Readers at work keep theirs; the next one
// loads it again.
func (b *Block) Unload() {
	b.header.drop()
	b.hashes.drop()
}

// UnloadIdle unloads if no Reader was opened since the call before, and reports whether there was
// something to unload.
func (b *Block) UnloadIdle() bool {
	if b.used.Swap(false) || !b.Loaded() {
		return false
	}
	b.Unload()
	return true
}

// Close ends the block: from now on its new Readers answer ErrClosed. Those at work finish as if
// it were open; with the last of them, and the last batch, its pages leave the cache.
func (b *Block) Close() { b.close(false) }

// Remove closes the block, and has its local files removed when nobody reads it any more.
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

// hold counts one who reads, and reports whether the block is open.
func (b *Block) hold() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refs++
	return !b.closed
}

func (b *Block) letGo() {
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

// finish frees what the block has, when it is closed and nobody reads it.
func (b *Block) finish() {
	b.Unload()
	b.options.Cache.forget(b.number)
	b.mu.Lock()
	remove := b.remove
	b.mu.Unlock()
	if remove {
		if err := removeLocal(b.dir); err != nil {
			b.options.Log.Warn("local files of a block are left", "block", b.prefix, "error", err)
		}
	}
}

// object returns the name of one of the block's objects.
func (b *Block) object(file string) string { return b.prefix + "/" + file }

// corrupt makes the error for bytes that cannot be read.
func (b *Block) corrupt(file string, offset int64, reason string) error {
	return &CorruptError{Block: b.prefix, File: file, Offset: offset, Reason: reason}
}

func (b *Block) closedError() error { return fmt.Errorf("block %s: %w", b.prefix, ErrClosed) }

// failed says what could not be done with the block.
func (b *Block) failed(doing string, err error) error {
	return fmt.Errorf("block %s: %s: %w", b.prefix, doing, err)
}
