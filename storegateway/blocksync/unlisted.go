package blocksync

import (
	"context"
	"path"

	"github.com/oklog/ulid/v2"

	"github.com/taredb/tare/internal/parallel"
)

// confirmUnlisted checks the served blocks of which the listing has no object.
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
			b.missingSince.Store(0)
			s.result.add(b)
		case verdictOf(err) == nil && s.failed.Add(1) == 1:
			s.first = err
		}
		return context.Cause(ctx)
	})
}

// unlisted checks a served block whose meta.json is not in the listing. A listing may lack objects that
// exist: a block counts as deleted only when a request for its meta.json does not find it either.
func (s *tenantSync) unlisted(ctx context.Context, b *block) error {
	name := path.Join(prefixOf(s.tenant, b.id), metaName)
	_, err := s.syncer.reader.attributes(ctx, name)
	switch {
	case IsNotFound(err):
		return skip(SkipNoMeta, "meta.json is gone: the block is being deleted")
	case err == nil:
		s.syncer.log.Warn("listing lacks an object that exists", "object", name)
	}
	return err
}
