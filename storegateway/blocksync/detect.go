package blocksync

import (
	"context"
	"maps"
	"path"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/taredb/tare/tsblock"
)

// arrangement returns the arrangement of the bucket, or nil if LayoutAuto sees no block yet.
func (s *Syncer) arrangement(ctx context.Context) (arrangement, error) {
	if s.layout == LayoutAuto {
		found, err := s.detect(ctx)
		if err != nil || found == LayoutAuto {
			return nil, err
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

// detect returns the layout that a listing implies, or LayoutAuto if it implies none.
func (s *Syncer) detect(ctx context.Context) (Layout, error) {
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
		return LayoutAuto, err
	}
	if others["wal"] || others["chunks_head"] {
		return LayoutPrometheus, nil
	}
	for i, id := range slices.SortedFunc(maps.Keys(blocks), ulid.ULID.Compare) {
		text, err := s.reader.getConfirmed(ctx, path.Join(id.String(), metaName))
		switch {
		case err != nil && (!IsNotFound(err) || i == maxDetect):
			return LayoutAuto, err
		case err != nil:
			continue // not uploaded yet, or deleted
		}
		if m, err := tsblock.ParseMeta(text); err == nil {
			if hasThanos(m) {
				return LayoutThanos, nil
			}
			return LayoutPrometheus, nil
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(others)) {
		mimir := false
		err := s.reader.list(ctx, dir, false, func() { mimir = false }, func(name string) {
			base := path.Base(name)
			_, block := parseBlockID(base)
			mimir = mimir || block || base == bucketIndexName
		})
		if err != nil || mimir {
			return LayoutMimir, err
		}
	}
	return LayoutAuto, nil
}
