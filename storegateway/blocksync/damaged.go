package blocksync

import (
	"errors"
	"path"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/taredb/tare/tsblock"
)

const (
	// damageTries is the number of times that a block's bytes must be corrupt before it is skipped: the first time, they
	// may have changed on the way.
	damageTries = 2

	// damageFor is the time for which a damaged block is skipped. It may have been repaired by then.
	damageFor = time.Hour
)

// damages are the blocks whose bytes queries found to be corrupt.
type damages struct {
	mu     sync.Mutex
	blocks map[ulid.ULID]*damage
}

type damage struct {
	times  blockTimes
	detail string
	found  int
	until  time.Time
}

// found records that a query read corrupt bytes of a block, and reports whether the block is to be skipped.
func (d *damages) found(b *block, err error, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, at := range d.blocks {
		if now.After(at.until) {
			delete(d.blocks, id)
		}
	}
	at := d.blocks[b.id]
	if at == nil {
		at = &damage{times: blockTimes{true, b.minTime, b.maxTime, b.external}, until: now.Add(damageFor)}
		if d.blocks == nil {
			d.blocks = make(map[ulid.ULID]*damage)
		}
		d.blocks[b.id] = at
	}
	at.found++
	at.detail = err.Error()
	return at.found >= damageTries
}

// skip returns the verdict on a block, and its times; nil if the block is not skipped.
func (d *damages) skip(id ulid.ULID, now time.Time) (error, blockTimes) { //nolint:revive // the times belong to the verdict
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.blocks[id]
	if at == nil || at.found < damageTries || now.After(at.until) {
		return nil, blockTimes{}
	}
	return &verdict{SkipDamaged, at.detail}, at.times
}

// damagedBlock returns the served block whose corrupt bytes err reports; nil if it does not report any.
func (s *Syncer) damagedBlock(err error) *block {
	e, ok := errors.AsType[*tsblock.CorruptError](err)
	if !ok {
		return nil
	}
	id, err := ulid.ParseStrict(path.Base(e.Block))
	if err != nil {
		return nil
	}
	for b := range s.current().all() {
		if b.id == id {
			return b
		}
	}
	return nil
}

// FoundDamage records that a request read corrupt bytes of a block after it had sent data. A later request may skip the
// block.
func (s *Syncer) FoundDamage(err error) {
	if b := s.damagedBlock(err); b != nil && s.damages.found(b, err, time.Now()) {
		s.log.Error("block skipped: it is damaged", "block", b.id, "for", damageFor, "err", err)
		s.nudge()
	}
}
