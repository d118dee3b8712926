package blocksync

import (
	"cmp"
	"context"
	"math"
	"path"
	"slices"
	"time"

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
			b.missingSince.CompareAndSwap(0, time.Now().UnixNano())
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

// suspectPart is the fraction of a tenant's blocks that may leave the bucket without a reason between two syncs: an
// operator may delete a few. More of them look like the listing of another bucket, of a lagging replica, or of a disk that
// is not mounted.
const suspectPart = 4

// unexplained returns the blocks that left the bucket without a reason, if they are more than the fraction
// suspectPart of those served and more than one. Reasons are a deletion mark, blocks of a higher level, or new ones, that
// cover their time range, and for a directory of Prometheus, which has no marks, any blocks that do, and retention, by
// which the oldest blocks leave.
func (s *tenantSync) unexplained() map[ulid.ULID]bool {
	named := make(map[string]bool)
	for i := range s.result.skipped {
		named[s.result.skipped[i].ID] = true
	}
	oldest := int64(math.MinInt64)
	_, prometheus := s.layout.(prometheusLayout)
	if prometheus && len(s.result.blocks) > 0 {
		oldest = slices.MinFunc(s.result.blocks, func(a, b *block) int { return cmp.Compare(a.minTime, b.minTime) }).minTime
	}
	s.result.sort()
	lost := make(map[ulid.ULID]bool)
	for id, b := range s.old.byID {
		_, other := s.result.otherShards[id]
		switch {
		case s.result.byID[id] != nil, named[id.String()], other, b.marked.Load() != 0, b.maxTime <= oldest:
		case s.result.covers(blockTimes{true, b.minTime, b.maxTime, b.external}, func(by *block) bool {
			return prometheus || by.level() > b.level() || s.old.byID[by.id] == nil
		}):
		default:
			lost[id] = true
		}
	}
	if len(lost) < 2 || len(lost)*suspectPart <= len(s.old.byID) {
		return nil
	}
	return lost
}

// suspectGaps returns the suspects of all times.
func (t *Tenant) suspectGaps() (all []*gap) {
	for i := range t.suspects {
		all = append(all, &t.suspects[i])
	}
	return all
}

// level returns the compaction level.
func (b *block) level() int { return b.data.Meta().Compaction.Level }
