package blocksync

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"path"
	"slices"

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
// bytes after the version.
const (
	tombstonesMagic   = 0x0130BA30
	tombstonesVersion = 1
	tombstonesLeast   = 4 + 1 + 4

	// maxDeletions bounds the entries of a file, of which each takes up to 100 bytes of memory.
	maxDeletions = 2_000_000
)

// parseTombstones parses a tombstones file.
func parseTombstones(text []byte) (Deletions, error) {
	if len(text) < tombstonesLeast {
		return nil, fmt.Errorf("%s: %d bytes are too few", tombstonesName, len(text))
	}
	body, sum := text[5:len(text)-4], binary.BigEndian.Uint32(text[len(text)-4:])
	if m := binary.BigEndian.Uint32(text); m != tombstonesMagic {
		return nil, fmt.Errorf("%s: magic number %x, want %x", tombstonesName, m, tombstonesMagic)
	}
	if text[4] != tombstonesVersion {
		return nil, fmt.Errorf("%s: version %d is unknown", tombstonesName, text[4])
	}
	if crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) != sum {
		return nil, fmt.Errorf("%s: checksum mismatch", tombstonesName)
	}
	all, err := readEntries(body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tombstonesName, err)
	}
	return mergeDeletions(all), nil
}

// A deletion is an entry of a tombstones file.
type deletion struct {
	ref uint32
	tombstones.Interval
}

// readEntries decodes the entries.
func readEntries(b []byte) ([]deletion, error) {
	n := 0
	for at := 0; at < len(b); n++ { // first their number
		for range 3 {
			for at < len(b) && b[at] >= 0x80 {
				at++
			}
			at++
		}
	}
	if n > maxDeletions {
		return nil, fmt.Errorf("%d deletions are more than %d", n, maxDeletions)
	}
	all := make([]deletion, 0, n)
	for len(b) > 0 {
		ref, width := binary.Uvarint(b)
		b = b[max(width, 0):]
		mint, first := binary.Varint(b)
		b = b[max(first, 0):]
		maxt, second := binary.Varint(b)
		b = b[max(second, 0):]
		switch {
		case width <= 0 || first <= 0 || second <= 0:
			return nil, errors.New("an entry ends early")
		case ref>>32 != 0:
			return nil, fmt.Errorf("there can be no series %d", ref)
		case mint > maxt:
			continue // of nothing
		}
		all = append(all, deletion{uint32(ref), tombstones.Interval{Mint: mint, Maxt: maxt}})
	}
	return all, nil
}

// mergeDeletions joins the ranges of each series that overlap or follow each other. It takes time in proportion to the
// entries: adding them one by one takes the square of it.
func mergeDeletions(all []deletion) Deletions {
	slices.SortFunc(all, func(a, b deletion) int { return cmp.Or(cmp.Compare(a.ref, b.ref), cmp.Compare(a.Mint, b.Mint)) })
	d := make(Deletions)
	merged := make(tombstones.Intervals, 0, len(all))
	for i := 0; i < len(all); {
		ref, from := all[i].ref, len(merged)
		for ; i < len(all) && all[i].ref == ref; i++ {
			next := all[i].Interval
			if n := len(merged); n > from && (merged[n-1].Maxt == math.MaxInt64 || next.Mint <= merged[n-1].Maxt+1) {
				merged[n-1].Maxt = max(merged[n-1].Maxt, next.Maxt)
				continue
			}
			merged = append(merged, next)
		}
		d[ref] = merged[from:len(merged):len(merged)]
	}
	return d
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
