package storegateway

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"github.com/taredb/tare/slab"
	"github.com/taredb/tare/tsblock"
)

// maxTombstones is how long a file of tombstones may be, in bytes.
const maxTombstones = 64 << 20

// deletions are the time ranges that were deleted of a block's series, by the series' references. They do
// not change.
type deletions map[uint32]tombstones.Intervals

// of returns the deleted ranges of a series; nil: none.
func (d deletions) of(ref uint32) tombstones.Intervals {
	if len(d) == 0 {
		return nil
	}
	return d[ref]
}

// whole returns what reports whether a chunk was deleted as a whole; nil if none was.
func (d deletions) whole() func(ref uint32, mint, maxt int64) bool {
	if len(d) == 0 {
		return nil
	}
	return func(ref uint32, mint, maxt int64) bool {
		return tombstones.Interval{Mint: mint, Maxt: maxt}.IsSubrange(d[ref])
	}
}

// deletedAt reports whether the sample at t was deleted.
func deletedAt(ivs tombstones.Intervals, t int64) bool {
	for _, iv := range ivs {
		if t <= iv.Maxt {
			return t >= iv.Mint
		}
	}
	return false
}

// touches reports whether a sample from mint to maxt may have been deleted.
func touches(ivs tombstones.Intervals, mint, maxt int64) bool {
	return slices.ContainsFunc(ivs, func(iv tombstones.Interval) bool { return iv.Mint <= maxt && iv.Maxt >= mint })
}

// The file of tombstones: magic, version, entries of reference and two times, CRC32C of what follows the
// version. Version and entries are read by Prometheus' decoder.
const (
	tombstonesMagic = 0x0130BA30
	tombstonesLeast = 4 + 1 + 4
)

// parseTombstones reads a file of tombstones.
func parseTombstones(text []byte) (deletions, error) {
	if len(text) < tombstonesLeast {
		return nil, fmt.Errorf("%s: %d bytes are too few", tombstonesName, len(text))
	}
	body, sum := text[4:len(text)-4], binary.BigEndian.Uint32(text[len(text)-4:])
	if m := binary.BigEndian.Uint32(text); m != tombstonesMagic {
		return nil, fmt.Errorf("%s: magic number %x, want %x", tombstonesName, m, tombstonesMagic)
	}
	if crc32.Checksum(body[1:], crc32.MakeTable(crc32.Castagnoli)) != sum {
		return nil, fmt.Errorf("%s: checksum mismatch", tombstonesName)
	}
	r, err := tombstones.Decode(body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tombstonesName, err)
	}
	d := make(deletions)
	err = r.Iter(func(ref storage.SeriesRef, ivs tombstones.Intervals) error {
		if uint64(ref)>>32 != 0 {
			return fmt.Errorf("%s: there can be no series %d", tombstonesName, ref)
		}
		d[uint32(ref)] = slices.Clone(ivs)
		return nil
	})
	return d, errors.Join(err, r.Close())
}

// readDeletions reads a block's tombstones. Without the file there are none, unless meta.json says so.
func (s *tenantSync) readDeletions(ctx context.Context, prefix string, m *tsblock.Meta) (deletions, error) {
	text, err := s.gateway.reader.get(ctx, path.Join(prefix, tombstonesName), maxTombstones)
	switch {
	case isGone(err) && m.Stats.NumTombstones == 0:
		return nil, nil
	case isGone(err):
		return nil, skip(SkipTombstones, "%s is missing, and %d deletions are in effect", tombstonesName, m.Stats.NumTombstones)
	case err != nil:
		return nil, err
	}
	d, err := parseTombstones(text)
	if err != nil {
		return nil, skip(SkipTombstones, "%v", err)
	}
	return d, nil
}

// checkDeleted reads the tombstones again if series were deleted from a block of a running Prometheus, which
// rewrites meta.json then.
func (s *tenantSync) checkDeleted(ctx context.Context, b *block) error {
	if !s.mayBeDeleted() {
		return nil
	}
	name := path.Join(b.data.Prefix(), metaName)
	a, err := s.gateway.reader.attributes(ctx, name)
	if err != nil || a.LastModified.Equal(b.written) {
		return err
	}
	text, err := s.gateway.reader.get(ctx, name, maxMeta)
	if err != nil {
		return err
	}
	m, err := parseMeta(text, b.id)
	if err != nil {
		return err
	}
	deleted, err := s.readDeletions(ctx, b.data.Prefix(), m)
	if err != nil {
		return err
	}
	b.deleted.Store(&deleted)
	b.written = a.LastModified
	return nil
}

// mayBeDeleted says whether somebody may delete series of blocks while they lie there.
func (s *tenantSync) mayBeDeleted() bool {
	_, prometheus := s.layout.(prometheusLayout)
	return prometheus && s.gateway.options.LocalBucket != ""
}

// A keptIterator walks the samples of a chunk that lie between two times and were not deleted. It is not
// for seeking, which encoders do not do.
type keptIterator struct {
	chunkenc.Iterator
	mint, maxt int64
	deleted    tombstones.Intervals
}

// Next implements chunkenc.Iterator.
func (it *keptIterator) Next() chunkenc.ValueType {
	for {
		kind := it.Iterator.Next()
		if kind == chunkenc.ValNone || it.AtT() > it.maxt {
			return chunkenc.ValNone
		}
		if t := it.AtT(); t >= it.mint && !deletedAt(it.deleted, t) {
			return kind
		}
	}
}

// appendKept appends the chunks of an entry, each of which a deletion touches encoded again without the
// samples that were deleted. What that takes is charged to the query until the set is closed.
func (set *SeriesSet) appendKept(dst []ChunkView, e *entry, deleted tombstones.Intervals) ([]ChunkView, error) {
	b := e.held.batch
	for j, c := range b.Chunks(e.i) {
		encoding, data := b.Data(e.i, j)
		if !touches(deleted, c.MinTime, c.MaxTime) {
			dst = append(dst, ChunkView{MinTime: c.MinTime, MaxTime: c.MaxTime, Encoding: encoding, Data: data})
			continue
		}
		chunk, err := chunkenc.FromData(chunkenc.Encoding(encoding), data)
		if err != nil {
			return nil, e.chunkError(j, err)
		}
		list := chunkList{}
		if err := list.appendPart(labels.EmptyLabels(), chunk, c.MinTime, c.MaxTime, deleted); err != nil {
			return nil, e.chunkError(j, err)
		}
		for _, m := range list.metas {
			bytes := int64(len(m.Chunk.Bytes()))
			if err := set.query.quota.Reserve(slab.Series, bytes); err != nil {
				return nil, err
			}
			set.rewritten += bytes
			dst = append(dst, ChunkView{MinTime: m.MinTime, MaxTime: m.MaxTime, Encoding: byte(m.Chunk.Encoding()), Data: m.Chunk.Bytes()})
		}
	}
	return dst, nil
}

// chunkError says which chunk of an entry cannot be read.
func (e *entry) chunkError(j int, err error) error {
	c := e.held.batch.Chunks(e.i)[j]
	return fmt.Errorf("block %s: a chunk of times %d to %d: %w", e.held.stream.handle.id(), c.MinTime, c.MaxTime, err)
}

// deleted returns the deleted ranges of the series.
func (p place) deleted() tombstones.Intervals {
	return p.held.stream.handle.deletions.of(p.held.batch.SeriesRef(p.i))
}

// deleted returns the deleted ranges of the series.
func (e *entry) deleted() tombstones.Intervals {
	return e.held.stream.handle.deletions.of(e.held.batch.SeriesRef(e.i))
}
