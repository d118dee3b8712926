package blocksync

import (
	"context"
	"path"

	"github.com/oklog/ulid/v2"

	"github.com/taredb/tare/store/tsblock"
)

// syncOtherShard determines the time range of a block of another shard. A range that cannot be read counts as
// unknown, and is read again at the next sync.
func (s *tenantSync) syncOtherShard(ctx context.Context, id ulid.ULID, f *found) {
	o := s.old.otherShards[id]
	if !o.known && f.saw&sawDeletionMark == 0 {
		prefix := prefixOf(s.tenant, id)
		text, err := s.syncer.reader.get(ctx, path.Join(prefix, metaName), maxMeta)
		var m *tsblock.Meta
		if err == nil {
			m, err = tsblock.ParseMeta(text)
		}
		switch {
		case err == nil:
			o.blockTimes, o.resolution = s.timesOf(m), Resolution(m.Thanos.Downsample.Resolution)
		case IsNotFound(err):
			o.ignored = true
		}
	}
	o.ignored = o.ignored && !o.known || f.saw&sawDeletionMark != 0
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.otherShards[id] = o
}

// timesOf returns the time range that a block's meta.json states.
func (s *tenantSync) timesOf(m *tsblock.Meta) blockTimes {
	t := blockTimes{known: m.MaxTime >= m.MinTime, mint: m.MinTime, maxt: m.MaxTime}
	if _, thanos := s.layout.(thanosLayout); thanos {
		t.external = externalLabels(m)
	}
	return t
}
