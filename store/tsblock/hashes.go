package tsblock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sort"

	"github.com/taredb/tare/internal/slab"
)

// The pages of the local file of series hashes have the reference and the hash of each series, in the order
// of the references. No entry spans pages. The first reference of each page is kept in memory.
const (
	hashBytes   = 4 + 8
	hashesAPage = pageSize / hashBytes
)

// hashes are the hashes of all series of a block. With them the shards of a query do not read the labels of
// each other's series.
type hashes struct {
	file  *pagedFile
	count uint64
	first []uint32 // first reference of each page
}

// loadHashes loads the hashes from the local file. If that is unusable, it reads all series once and writes
// the file.
func (b *Block) loadHashes(ctx context.Context) (*hashes, error) {
	if !b.retain() {
		defer b.release()
		return nil, b.closedError()
	}
	defer b.release()
	// The block's slot of Loads is taken for this load, so the header is loaded without another.
	head, err := b.header.get(ctx, nil)
	if err != nil {
		return nil, err
	}
	path, id := filepath.Join(b.dir, hashesName), identity{b.meta.ULID, head.size}
	h, err := b.openHashes(path, id)
	if err == nil {
		return h, nil
	}
	b.logDamaged(path, err)
	if err = b.buildHashes(ctx, path, id); err != nil {
		return nil, b.failed("hash all series", err)
	}
	if h, err = b.openHashes(path, id); err != nil {
		return nil, b.justBuilt(hashesName, err)
	}
	return h, nil
}

func (b *Block) openHashes(path string, id identity) (*hashes, error) {
	l, err := openLocal(path, hashesFile, id)
	if err != nil {
		return nil, err
	}
	d := decoder{rest: l.memory}
	h := &hashes{count: d.uvarint()}
	h.first = make([]uint32, d.count(1))
	last := uint64(0)
	for i := range h.first {
		last += d.uvarint()
		d.check(last <= math.MaxUint32)
		h.first[i] = uint32(last)
	}
	if d.bad || len(d.rest) > 0 || uint64(len(h.first)) != (h.count+hashesAPage-1)/hashesAPage || int64(len(h.first)) != (l.paged+pageSize-1)>>pageBits {
		return nil, errMemoryPart
	}
	h.file = l.pages(b, path, hashesFile, func(ctx context.Context) error {
		b.discard(path, func() bool { return b.hashes.dropThis(h) })
		_, err := b.hashes.get(ctx, nil)
		return err
	})
	return h, nil
}

// buildHashes reads all series, without a quota since it serves all later queries. It keeps one batch in
// memory, beside the list of all series.
func (b *Block) buildHashes(ctx context.Context, path string, id identity) error {
	r := b.Reader(nil)
	defer r.Close()
	if _, err := r.prepare(ctx); err != nil {
		return err
	}
	all, err := r.allPostings(ctx)
	if err != nil {
		return err
	}
	w, err := createLocal(path)
	if err != nil {
		return err
	}
	defer w.abandon()
	s := r.Series(all, Select{MinTime: math.MinInt64, MaxTime: math.MaxInt64, SkipChunks: true})
	s.every = true
	var first []uint32
	var count uint64
	var entry, text []byte
	for {
		batch, err := s.Next(ctx)
		if errors.Is(err, ErrNoMoreSeries) {
			break
		}
		if err != nil {
			return err
		}
		for i := range batch.Len() {
			if count%hashesAPage == 0 {
				if err := w.pad(); err != nil {
					batch.Release()
					return err
				}
				first = append(first, batch.SeriesRef(i))
			}
			count++
			var hash uint64
			hash, text = stableHash(batch.Labels(i), text)
			entry = binary.BigEndian.AppendUint32(entry[:0], batch.SeriesRef(i))
			entry = binary.BigEndian.AppendUint64(entry, hash)
			if err := w.write(entry); err != nil {
				batch.Release()
				return err
			}
		}
		batch.Release()
	}
	if count != uint64(all.most) {
		return b.corrupt("index", 0, fmt.Sprintf("%d series entries for %d postings", count, all.most))
	}
	memory := binary.AppendUvarint(nil, count)
	memory = binary.AppendUvarint(memory, uint64(len(first)))
	last := uint32(0)
	for _, ref := range first {
		memory = binary.AppendUvarint(memory, uint64(ref-last))
		last = ref
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return w.commit(hashesFile, id, memory)
}

// A shardFilter reports which series are in a shard. References must ascend.
type shardFilter struct {
	h     *hashes
	shard Shard
	page  int
	rest  []byte // rest of the page
}

// has reports whether a series is in the shard.
func (f *shardFilter) has(ctx context.Context, r *Reader, ref uint32) (bool, error) {
	for !f.seek(ref) {
		if err := f.load(ctx, r, ref); err != nil {
			return false, err
		}
	}
	r.stats.Hashes.Items++
	r.stats.Hashes.Touched += hashBytes
	return binary.BigEndian.Uint64(f.rest[4:])%f.shard.Count == f.shard.Index, nil
}

// at returns the reference of entry i of the rest of the page.
func (f *shardFilter) at(i int) uint32 { return binary.BigEndian.Uint32(f.rest[i*hashBytes:]) }

// seek skips the entries before ref and reports whether the next entry of the page is that of ref. It steps
// over near entries and uses binary search for far ones.
func (f *shardFilter) seek(ref uint32) bool {
	for n := len(f.rest) / hashBytes; n > 0; n = len(f.rest) / hashBytes {
		if at := f.at(0); at >= ref {
			return at == ref
		}
		skip := 1
		if n > 16 && f.at(16) <= ref {
			skip = 15 + sort.Search(n-16, func(i int) bool { return f.at(16+i) > ref })
		}
		f.rest = f.rest[skip*hashBytes:]
	}
	return false
}

// load reads the page that contains the entry of ref.
func (f *shardFilter) load(ctx context.Context, r *Reader, ref uint32) error {
	page, found := slices.BinarySearch(f.h.first, ref)
	if !found {
		page--
	}
	if page < 0 || f.rest != nil && page == f.page {
		return r.block.corrupt(hashesName, int64(max(page, 0))<<pageBits, "a series has no hash")
	}
	set := &r.scratch.hashes
	set.init(f.h.file, slab.Series, &r.stats.Hashes)
	set.request(int64(page)<<pageBits, 1)
	if err := set.load(ctx); err != nil {
		return err
	}
	data, err := set.page(ctx, uint32(page))
	if err != nil {
		return err
	}
	f.page = page
	f.rest = data[:min(len(data), hashesAPage*hashBytes)]
	return nil
}
