package blocksync

import (
	"context"
	"path"

	"github.com/oklog/ulid/v2"

	"github.com/taredb/tare/tsblock"
)

// other finds out which times a block of another shard has. What cannot be read now counts as unknown,
// and is read at the next sync.
func (s *tenantSync) other(ctx context.Context, id ulid.ULID, f *found) {
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
			o.blockTimes = s.timesOf(m)
		case IsGone(err):
			o.ignored = true
		}
	}
	o.ignored = o.ignored && !o.known || f.saw&sawDeletionMark != 0
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.otherShards[id] = o
}

// timesOf returns what a block's meta.json says of its range.
func (s *tenantSync) timesOf(m *tsblock.Meta) blockTimes {
	t := blockTimes{known: m.MaxTime >= m.MinTime, mint: m.MinTime, maxt: m.MaxTime}
	if _, thanos := s.layout.(thanosLayout); thanos {
		t.external = externalLabels(m)
	}
	return t
}
