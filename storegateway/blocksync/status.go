package blocksync

import (
	"cmp"
	"slices"
	"time"
)

// BlockInfo describes a block that is served. Its JSON is stable.
type BlockInfo struct {
	ID      string            `json:"id"`
	Tenant  string            `json:"tenant,omitempty"`
	MinTime int64             `json:"minTime"` // milliseconds since 1970, inclusive
	MaxTime int64             `json:"maxTime"` // exclusive
	Labels  map[string]string `json:"labels,omitempty"`

	Series  uint64 `json:"series"`
	Chunks  uint64 `json:"chunks"`
	Samples uint64 `json:"samples"`
	Bytes   int64  `json:"bytes,omitempty"` // of its objects, where the uploader wrote that down
	Level   int    `json:"level"`           // of compaction
	Source  string `json:"source,omitempty"`

	Loaded    bool       `json:"loaded"`              // its index header is in memory
	Queries   int        `json:"queries"`             // that have it open
	LastUsed  *time.Time `json:"lastUsed,omitempty"`  // the end of its last query
	Marked    *time.Time `json:"marked,omitempty"`    // for deletion
	NoCompact bool       `json:"noCompact,omitempty"` // marked as not to be compacted
	Gone      *time.Time `json:"gone,omitempty"`      // kept though it is gone, as long as other blocks cannot be looked at
}

// SkippedBlock is a block of the bucket that is not served. Its JSON is stable.
type SkippedBlock struct {
	ID     string     `json:"id"`
	Tenant string     `json:"tenant,omitempty"`
	Reason SkipReason `json:"reason"`
	Detail string     `json:"detail"`

	MinTime int64 `json:"minTime,omitempty"` // milliseconds since 1970, inclusive; of a block whose meta.json was read
	MaxTime int64 `json:"maxTime,omitempty"` // exclusive

	times    blockTimes
	deleting bool // it was marked for deletion
}

// SyncStatus is what is known of the bucket. Its JSON is stable.
type SyncStatus struct {
	Layout     Layout    `json:"layout"`
	Shard      string    `json:"shard"`
	Last       time.Time `json:"last"`               // the end of the last sync
	LastGood   time.Time `json:"lastGood"`           // of the last that went through; zero: none has
	Seconds    float64   `json:"seconds"`            // that the last one took
	Error      string    `json:"error,omitempty"`    // of the last one
	Tenants    int       `json:"tenants"`            //
	Blocks     int       `json:"blocks"`             // served
	Skipped    int       `json:"skipped"`            // not served, see SkippedBlock
	OtherShard int       `json:"otherShard"`         // served by other processes
	Foreign    int       `json:"foreign"`            // objects and directories that belong to no block
	Stranger   string    `json:"stranger,omitempty"` // one of them
	Added      int       `json:"added"`              // blocks, by the last sync
	Removed    int       `json:"removed"`            // blocks, by the last sync
}

// current returns the set that is served.
func (s *Syncer) current() *blockSet {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.set
}

// Generation returns a number that changes with the set of blocks that are served.
func (s *Syncer) Generation() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.generation
}

// HeaderBytes returns the heap bytes of all loaded index headers. It visits each block: it is for scrapes.
func (s *Syncer) HeaderBytes() (n int64) {
	for b := range s.current().all() {
		n += b.data.HeapBytes()
	}
	return n
}

func (s *blockSet) size() int {
	n := 0
	for _, t := range s.tenants {
		n += len(t.blocks)
	}
	return n
}

// Blocks returns the blocks that are served, by tenant and time.
func (s *Syncer) Blocks() []BlockInfo {
	set := s.current()
	blocks := make([]BlockInfo, 0, set.size())
	for b := range set.all() {
		blocks = append(blocks, b.info())
	}
	slices.SortFunc(blocks, func(a, b BlockInfo) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.MinTime, b.MinTime), cmp.Compare(a.ID, b.ID))
	})
	return blocks
}

func (b *block) info() BlockInfo {
	m := b.data.Meta()
	i := BlockInfo{
		ID: b.id.String(), Tenant: b.tenant, MinTime: b.minTime, MaxTime: b.maxTime,
		Series: m.Stats.NumSeries, Chunks: m.Stats.NumChunks, Samples: m.Stats.NumSamples,
		Level: m.Compaction.Level, Source: m.Thanos.Source,
		Loaded: b.data.Loaded(), Queries: int(max(b.refs.Load()-1, 0)),
		NoCompact: b.noCompact.Load(),
	}
	for _, f := range m.Thanos.Files {
		i.Bytes += f.Bytes
	}
	if !b.external.IsEmpty() {
		i.Labels = b.external.Map()
	}
	i.LastUsed = timeOf(0, b.lastUsed.Load())
	i.Marked = timeOf(b.marked.Load(), 0)
	i.Gone = timeOf(0, b.gone.Load())
	return i
}

// timeOf returns a time, nil for 1970.
func timeOf(seconds, nanos int64) *time.Time {
	if seconds == 0 && nanos == 0 {
		return nil
	}
	t := time.Unix(seconds, nanos).UTC()
	return &t
}

// Skipped returns the blocks that are in the bucket and not served, and why, by tenant and id.
// Those of other shards are not among them.
func (s *Syncer) Skipped() []SkippedBlock {
	var skipped []SkippedBlock
	for _, t := range s.current().tenants {
		skipped = append(skipped, t.skipped...)
	}
	slices.SortFunc(skipped, func(a, b SkippedBlock) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.ID, b.ID))
	})
	return skipped
}

// Status returns what the last sync found.
func (s *Syncer) Status() SyncStatus {
	if status := s.status.Load(); status != nil {
		return *status
	}
	return SyncStatus{Layout: s.options.Layout, Shard: s.options.Shard.String()}
}

// recordSync keeps and logs what a sync found.
func (s *Syncer) recordSync(start time.Time, changes syncChanges, err error) {
	before := s.Status()
	set := s.current()
	now := time.Now()
	r := SyncStatus{
		Layout: s.layout, Shard: s.options.Shard.String(), Last: now, LastGood: before.LastGood,
		Seconds: now.Sub(start).Seconds(), Tenants: len(set.tenants), Blocks: set.size(),
		Added: changes.added, Removed: changes.removed,
		Foreign: set.foreign, Stranger: set.stranger,
	}
	for _, t := range set.tenants {
		r.Skipped += len(t.skipped)
		r.OtherShard += t.others
		r.Foreign += t.foreign
		r.Stranger = max(r.Stranger, t.stranger)
	}
	if err != nil {
		r.Error = err.Error()
		s.log.Warn("bucket sync failed; known blocks are still served", "error", err, "blocks", r.Blocks)
	} else {
		r.LastGood = now
		if before.LastGood.IsZero() || changes != (syncChanges{}) || before.Skipped != r.Skipped || before.Error != "" {
			s.log.Info("bucket synced", "blocks", r.Blocks, "added", changes.added, "removed", changes.removed,
				"skipped", r.Skipped, "other_shards", r.OtherShard, "seconds", r.Seconds)
		}
	}
	s.metrics.synced(now.Sub(start), err)
	s.status.Store(&r)
}
