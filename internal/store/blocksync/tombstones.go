package blocksync

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"slices"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/tombstones"

	"github.com/taredb/tare/store/tsblock"
)

// maxTombstones bounds a tombstones file in bytes.
const maxTombstones = 64 << 20

// Deletions are the time ranges deleted from the series of a block, by series reference. They are immutable.
type Deletions map[uint32]tombstones.Intervals

// Of returns the deleted ranges of a series, or nil if there are none.
func (d Deletions) Of(ref uint32) tombstones.Intervals {
	if len(d) == 0 {
		return nil
	}
	return d[ref]
}

// Whole returns a function that reports whether a chunk was deleted completely. It returns nil if there are
// no deletions.
func (d Deletions) Whole() func(ref uint32, mint, maxt int64) bool {
	if len(d) == 0 {
		return nil
	}
	return func(ref uint32, mint, maxt int64) bool {
		return tombstones.Interval{Mint: mint, Maxt: maxt}.IsSubrange(d[ref])
	}
}

// A tombstones file consists of magic, version, entries of a reference and two times, and the CRC32C of the
// bytes after the version. Prometheus' decoder decodes version and entries.
const (
	tombstonesMagic = 0x0130BA30
	tombstonesLeast = 4 + 1 + 4
)

// parseTombstones parses a tombstones file.
func parseTombstones(text []byte) (Deletions, error) {
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
	d := make(Deletions)
	err = r.Iter(func(ref storage.SeriesRef, ivs tombstones.Intervals) error {
		if uint64(ref)>>32 != 0 {
			return fmt.Errorf("%s: there can be no series %d", tombstonesName, ref)
		}
		d[uint32(ref)] = slices.Clone(ivs)
		return nil
	})
	return d, errors.Join(err, r.Close())
}

// readDeletions reads a block's tombstones. A missing file means none, unless meta.json counts some.
func (s *tenantSync) readDeletions(ctx context.Context, prefix string, m *tsblock.Meta) (Deletions, error) {
	text, err := s.syncer.reader.get(ctx, path.Join(prefix, tombstonesName), maxTombstones)
	switch {
	case IsNotFound(err) && m.Stats.NumTombstones == 0:
		return nil, nil
	case IsNotFound(err):
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
// then rewrites meta.json.
func (s *tenantSync) checkDeleted(ctx context.Context, b *block) error {
	if !s.mayBeDeleted() {
		return nil
	}
	name := path.Join(b.data.Prefix(), metaName)
	a, err := s.syncer.reader.attributes(ctx, name)
	if err != nil || a.LastModified.Equal(b.written) {
		return err
	}
	text, err := s.syncer.reader.get(ctx, name, maxMeta)
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

// mayBeDeleted reports whether series of the blocks may be deleted in place.
func (s *tenantSync) mayBeDeleted() bool {
	_, prometheus := s.layout.(prometheusLayout)
	return prometheus && s.syncer.options.LocalBucket != ""
}
