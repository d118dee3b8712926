package blocksync

import (
	"context"
	"path"

	"github.com/oklog/ulid/v2"

	"github.com/taredb/tare/internal/parallel"
)

// confirmUnlisted decides about the blocks that were served and that the listing does not have at all.
func (s *tenantSync) confirmUnlisted(ctx context.Context, l listing) error {
	var lost []ulid.ULID
	for id := range s.old.byID {
		if l.blocks[id] == nil {
			lost = append(lost, id)
		}
	}
	return parallel.ForEach(ctx, s.syncer.options.Concurrency, lost, func(ctx context.Context, id ulid.ULID) error {
		b := s.old.byID[id]
		err := s.unlisted(ctx, b)
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case err == nil:
			b.gone.Store(0)
			s.result.add(b)
		case verdictOf(err) == nil && s.failed.Add(1) == 1:
			s.first = err
		}
		return context.Cause(ctx)
	})
}

// unlisted decides about a block that was served and whose meta.json is not in the listing: a listing may lack
// objects that exist, and a block counts as deleted when its meta.json is not found by name either.
func (s *tenantSync) unlisted(ctx context.Context, b *block) error {
	name := path.Join(prefixOf(s.tenant, b.id), metaName)
	_, err := s.syncer.reader.attributes(ctx, name)
	switch {
	case IsGone(err):
		return skip(SkipNoMeta, "meta.json is gone: the block is being deleted")
	case err == nil:
		s.syncer.log.Warn("listing lacks an object that exists", "object", name)
	}
	return err
}
