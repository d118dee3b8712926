package blocksync

import (
	"cmp"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
)

// BlockInfo describes a served block. Its JSON is stable.
type BlockInfo struct {
	ID      string            `json:"id"`
	Tenant  string            `json:"tenant,omitempty"`
	MinTime int64             `json:"min_time"` // milliseconds since 1970, inclusive
	MaxTime int64             `json:"max_time"` // exclusive
	Labels  map[string]string `json:"labels,omitempty"`

	Resolution int64 `json:"resolution,omitempty"` // milliseconds between the samples of a downsampled block; 0: raw

	Series  uint64 `json:"series"`
	Chunks  uint64 `json:"chunks"`
	Samples uint64 `json:"samples"`
	Bytes   int64  `json:"bytes,omitempty"` // of its objects, if the uploader recorded it
	Level   int    `json:"level"`           // compaction level
	Source  string `json:"source,omitempty"`

	Loaded    bool       `json:"loaded"`               // its index header is in memory
	Queries   int        `json:"queries"`              // queries that have it open
	LastUsed  *time.Time `json:"last_used,omitempty"`  // end of the last query that read it
	Marked    *time.Time `json:"marked,omitempty"`     // for deletion
	NoCompact bool       `json:"no_compact,omitempty"` // marked as not to be compacted
	Gone      *time.Time `json:"gone,omitempty"`       // since when it is missing from the bucket; it is still served: it is readable, or other blocks are not
}

// SkippedBlock is a block of the bucket that is not served. Its JSON is stable.
type SkippedBlock struct {
	ID     string     `json:"id"`
	Tenant string     `json:"tenant,omitempty"`
	Reason SkipReason `json:"reason"`
	Detail string     `json:"detail"`

	MinTime int64 `json:"min_time,omitempty"` // milliseconds since 1970, inclusive; 0 unless meta.json was read
	MaxTime int64 `json:"max_time,omitempty"` // exclusive

	times    blockTimes
	deleting bool // it was marked for deletion

	odd      string    // name in the bucket of an entry that is no block, see oddEntry
	is       ulid.ULID // the block that its meta.json describes
	replaced bool      // that block is served
}

// SyncStatus is the state of the last sync. Its JSON is stable.
type SyncStatus struct {
	Layout   Layout    `json:"layout"`
	Shard    string    `json:"shard"`
	Last     time.Time `json:"last"`            // end of the last sync
	LastGood time.Time `json:"last_good"`       // end of the last successful sync; zero: none
	Seconds  float64   `json:"seconds"`         // duration of the last sync
	Error    string    `json:"error,omitempty"` // of the last sync

	Failing *time.Time `json:"failing_since,omitempty"` // end of the first of the consecutive failed syncs
	Advice  string     `json:"advice,omitempty"`        // what to do about the error

	Tenants    int      `json:"tenants"`
	Blocks     int      `json:"blocks"`                   // served
	Skipped    int      `json:"skipped"`                  // not served, see SkippedBlock
	OtherShard int      `json:"other_shard"`              // served by other processes
	Absent     []string `json:"absent_tenants,omitempty"` // chosen tenants of which the bucket has nothing
	Gone       int      `json:"gone"`                     // blocks that are served although the listing lacks them, and those that left without a reason
	Foreign    int      `json:"foreign"`                  // objects and directories that belong to no block
	Stranger   string   `json:"stranger,omitempty"`       // one of them
	Added      int      `json:"added"`                    // blocks added by the last sync
	Removed    int      `json:"removed"`                  // blocks removed by the last sync
}

// current returns the served set.
func (s *Syncer) current() *blockSet {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.set
}

// Generation returns a number that changes with the set of served blocks.
func (s *Syncer) Generation() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.generation
}

// HeaderBytes returns the heap bytes of all loaded index headers. It visits every block: call it per scrape,
// not per query.
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

// Blocks returns the served blocks, sorted by tenant and time.
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
		ID: b.id.String(), Tenant: b.tenant, MinTime: b.minTime, MaxTime: b.maxTime, Resolution: int64(b.resolution),
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
	i.Gone = timeOf(0, b.missingSince.Load())
	return i
}

// timeOf returns a time, or nil if both arguments are 0.
func timeOf(seconds, nanos int64) *time.Time {
	if seconds == 0 && nanos == 0 {
		return nil
	}
	t := time.Unix(seconds, nanos).UTC()
	return &t
}

// Skipped returns the blocks that are in the bucket but not served, with the reason, sorted by tenant and id.
// It omits blocks of other shards.
func (s *Syncer) Skipped() []SkippedBlock {
	var skipped []SkippedBlock
	set := s.current()
	skipped = append(skipped, set.root.skipped...)
	for _, t := range set.tenants {
		skipped = append(skipped, t.skipped...)
	}
	slices.SortFunc(skipped, func(a, b SkippedBlock) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.ID, b.ID))
	})
	return skipped
}

// Status returns the result of the last sync.
func (s *Syncer) Status() SyncStatus {
	if status := s.status.Load(); status != nil {
		return *status
	}
	return SyncStatus{Layout: s.options.Layout, Shard: s.options.Shard.String()}
}

// recordSync stores the result of a sync. It logs the first failure, and the first success after it.
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
	r.Skipped += len(set.root.skipped)
	for name, t := range set.tenants {
		if t.absent {
			r.Absent = append(r.Absent, name)
		}
		r.Skipped += len(t.skipped)
		r.OtherShard += t.others
		r.Foreign += t.foreign
		r.Stranger = max(r.Stranger, t.stranger)
		r.Gone += len(t.suspects)
	}
	for b := range set.all() {
		if b.missingSince.Load() != 0 {
			r.Gone++
		}
	}
	if err != nil {
		r.Error = err.Error()
		if r.Failing = before.Failing; r.Failing == nil {
			at := now.UTC()
			r.Failing = &at
		}
		if s.options.Advice != nil {
			r.Advice = s.options.Advice(err)
		}
		if before.Error == "" { // retries are counted, and the status has the last error
			s.log.Warn("bucket sync failed; known blocks are still served", "error", err, "advice", r.Advice, "blocks", r.Blocks)
		}
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
