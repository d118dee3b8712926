package blocksync

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/taredb/tare/store/tsblock"
)

// A damage is the state of a block that a query found damaged.
type damage struct {
	until  time.Time // when a sync serves the block again: its objects may have been replaced
	detail string
	times  blockTimes
}

// SkipDamaged stops serving the block of err, a *tsblock.CorruptError, for Options.DamageHold: results then name it as
// missing. It reports whether the block is not served any more. It blocks while a sync runs.
func (s *Syncer) SkipDamaged(ctx context.Context, err error) bool {
	corrupt, ok := errors.AsType[*tsblock.CorruptError](err)
	if !ok {
		return false
	}
	tenant, base := path.Split(corrupt.Block)
	id, ok := parseBlockID(base)
	return ok && s.skipDamaged(ctx, strings.TrimSuffix(tenant, "/"), id, corrupt.Detail())
}

func (s *Syncer) skipDamaged(ctx context.Context, tenant string, id ulid.ULID, detail string) bool {
	if s.lock(ctx) != nil {
		return false
	}
	defer s.unlock()
	old, name := s.current(), prefixOf(tenant, id)
	t := old.tenants[tenant]
	if t == nil || t.byID[id] == nil {
		_, held := s.damaged[name] // since another query
		return held
	}
	b := t.byID[id]
	d := damage{time.Now().Add(s.options.DamageHold), detail, blockTimes{true, b.minTime, b.maxTime, b.external}}
	s.damaged[name] = d
	s.log.Warn("damaged block not served", "block", name, "error", detail, "until", d.until)
	set := *old
	set.tenants = maps.Clone(old.tenants)
	set.tenants[tenant] = t.without(b, d.skip(tenant, id))
	status := s.Status()
	status.Blocks--
	status.Skipped++
	s.status.Store(&status)
	return s.exchange(old, &set)
}

// skip returns the block as a skipped one.
func (d *damage) skip(tenant string, id ulid.ULID) SkippedBlock {
	return SkippedBlock{ID: id.String(), Tenant: tenant, Reason: SkipDamaged, Detail: d.detail, MinTime: d.times.mint, MaxTime: d.times.maxt, times: d.times}
}

// without returns the tenant without a block, which is skipped.
func (t *Tenant) without(b *block, s SkippedBlock) *Tenant {
	c := *t
	c.blocks = slices.DeleteFunc(slices.Clone(t.blocks), func(other *block) bool { return other == b })
	c.byID = maps.Clone(t.byID)
	delete(c.byID, b.id)
	c.skipped = append(slices.Clone(t.skipped), s)
	c.gaps = nil
	c.sort()
	c.coverage = newCoverage(&c)
	c.collectGaps()
	return &c
}

// heldDamaged returns a verdict on a block that is not served because it is damaged, and its times.
func (s *Syncer) heldDamaged(tenant string, id ulid.ULID) (blockTimes, error) {
	d, ok := s.damaged[prefixOf(tenant, id)]
	if !ok {
		return blockTimes{}, nil
	}
	return d.times, skip(SkipDamaged, "%s", d.detail)
}

// forgetDamage ends the holds that are over.
func (s *Syncer) forgetDamage(now time.Time) {
	maps.DeleteFunc(s.damaged, func(_ string, d damage) bool { return !now.Before(d.until) })
}
