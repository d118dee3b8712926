package blocksync

import (
	"context"
	"maps"
	"path"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/taredb/tare/store/tsblock"
)

// arrangement returns the arrangement of the bucket, or nil if LayoutAuto sees no block yet. While no block of a
// bucket shows its layout, it lists them as LayoutPrometheus, which names each with the reason why it is skipped.
func (s *Syncer) arrangement(ctx context.Context) (arrangement, error) {
	if s.layout == LayoutAuto {
		found, blocks, err := s.detect(ctx)
		switch {
		case err != nil:
			return nil, err
		case found == LayoutAuto && blocks:
			return prometheusLayout{bucket: s.reader}, nil
		case found == LayoutAuto:
			return nil, nil
		}
		s.layout = found
		s.log.Info("bucket layout found", "layout", found)
	}
	switch s.layout {
	case LayoutPrometheus:
		return prometheusLayout{bucket: s.reader}, nil
	case LayoutThanos:
		return thanosLayout{bucket: s.reader}, nil
	}
	return mimirLayout{bucket: s.reader, read: s.reader.get, allowed: s.options.Tenants, stale: s.options.IndexMaxAge}, nil
}

// maxDetect bounds the directories that are listed to detect the layout.
const maxDetect = 64

// detect returns the layout that a listing implies, or LayoutAuto if it implies none, and whether there are blocks
// at the top. Blocks and directories that cannot be read imply nothing.
func (s *Syncer) detect(ctx context.Context) (_ Layout, anyBlock bool, _ error) {
	blocks, others := make(map[ulid.ULID]bool), make(map[string]bool)
	begin := func() { clear(blocks); clear(others) }
	err := s.reader.list(ctx, "", false, begin, func(name string) {
		dir := path.Base(name)
		if id, ok := parseBlockID(dir); ok {
			blocks[id] = true
		} else if len(others) < maxDetect || isPrometheusEntry(dir) {
			others[dir] = true
		}
	})
	if err != nil {
		return LayoutAuto, false, err
	}
	if others["wal"] || others["chunks_head"] {
		return LayoutPrometheus, true, nil
	}
	for i, id := range slices.SortedFunc(maps.Keys(blocks), ulid.ULID.Compare) {
		text, err := s.reader.getConfirmed(ctx, path.Join(id.String(), metaName))
		if ctx.Err() != nil {
			return LayoutAuto, true, context.Cause(ctx)
		}
		if i == maxDetect {
			break
		}
		if err != nil {
			continue // not uploaded yet, deleted, denied or unreadable
		}
		if m, err := tsblock.ParseMeta(text); err == nil {
			if hasThanos(m) {
				return LayoutThanos, true, nil
			}
			return LayoutPrometheus, true, nil
		}
	}
	var denied error
	for _, dir := range slices.Sorted(maps.Keys(others)) {
		mimir := false
		err := s.reader.list(ctx, dir, false, func() { mimir = false }, func(name string) {
			base := path.Base(name)
			_, block := parseBlockID(base)
			mimir = mimir || block || base == bucketIndexName
		})
		switch {
		case mimir:
			return LayoutMimir, true, nil
		case ctx.Err() != nil:
			return LayoutAuto, true, context.Cause(ctx)
		case err != nil && denied == nil:
			denied = err
		}
	}
	if len(blocks) == 0 && denied != nil {
		return LayoutAuto, false, denied
	}
	return LayoutAuto, len(blocks) > 0, nil
}
