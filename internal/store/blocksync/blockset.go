package blocksync

import (
	"cmp"
	"errors"
	"iter"
	"slices"
	"sort"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
)

// A blockSet is the set of served blocks that one sync found. It is immutable.
type blockSet struct {
	tenants  map[string]*Tenant
	root     *Tenant // its skipped: entries beside the tenants that look like blocks
	foreign  int     // unknown objects and directories beside the tenants
	stranger string  // one of them
}

// A Tenant is the set of a tenant's blocks that one sync found. A nil Tenant has none.
type Tenant struct {
	blocks   []*block // by minTime, then id
	byID     map[ulid.ULID]*block
	longest  int64 // duration of the longest block in milliseconds: bounds how far back a query searches
	skipped  []SkippedBlock
	absent   bool // the bucket has nothing of the tenant, which --tenants names
	others   int  // blocks of other shards
	gaps     []gap
	suspects []gap // blocks that left the bucket without a reason, see tenantSync.unexplained
	foreign  int
	stranger string // a foreign object
	err      error  // why the tenant could not be synced; the blocks are then those of the previous sync

	times       TimeRange                     // see Options
	otherShards map[ulid.ULID]otherShardBlock // blocks of other shards, as far as they are known
	coverage    coverage                      // nil: no block is downsampled
}

// An otherShardBlock is a block of another shard.
type otherShardBlock struct {
	blockTimes
	resolution Resolution
	ignored    bool // it is marked for deletion, or incomplete in the bucket
}

// counts reports whether the block has known times and is served by its shard.
func (o *otherShardBlock) counts() bool { return o.known && !o.ignored }

func newBlockSet() *blockSet { return &blockSet{tenants: make(map[string]*Tenant), root: newTenant()} }

func newTenant() *Tenant {
	return &Tenant{byID: make(map[ulid.ULID]*block), otherShards: make(map[ulid.ULID]otherShardBlock)}
}

// empty reports whether there is no block, served or not.
func (t *Tenant) empty() bool { return len(t.blocks)+len(t.skipped)+t.others == 0 }

// unknown reports whether nothing is known of the tenant that a response would have to have or to name.
func (t *Tenant) unknown() bool { return t.empty() && len(t.suspects) == 0 }

func (t *Tenant) add(b *block) {
	t.blocks = append(t.blocks, b)
	t.byID[b.id] = b
	t.longest = max(t.longest, b.maxTime-b.minTime)
}

func (t *Tenant) sort() {
	slices.SortFunc(t.blocks, func(a, b *block) int {
		return cmp.Or(cmp.Compare(a.minTime, b.minTime), a.id.Compare(b.id))
	})
	slices.SortFunc(t.skipped, func(a, b SkippedBlock) int { return cmp.Compare(a.ID, b.ID) })
}

// exchange replaces the served set. It returns false if the Syncer was closed meanwhile: then Close has released the
// blocks of the old set, and exchange releases the others.
func (s *Syncer) exchange(old, set *blockSet) bool {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		set.discard(old)
		return false
	}
	s.set = set
	s.generation++
	s.mu.Unlock()
	for b := range old.all() {
		if t := set.tenants[b.tenant]; t == nil || t.byID[b.id] != b {
			b.dropped.Store(true)
			b.release()
		}
	}
	return true
}

// errClosed is the error of a sync that Close has overtaken.
var errClosed = errors.New("sync: the syncer is closed")

// discard closes the blocks of a set that will not be served, except those that are also in but.
func (s *blockSet) discard(but *blockSet) {
	if s == nil {
		return
	}
	for b := range s.all() {
		if but != nil {
			if t := but.tenants[b.tenant]; t != nil && t.byID[b.id] == b {
				continue
			}
		}
		b.release()
	}
}

// all returns the blocks of all tenants. The order of tenants is random.
func (s *blockSet) all() iter.Seq[*block] {
	return func(yield func(*block) bool) {
		for _, t := range s.tenants {
			for _, b := range t.blocks {
				if !yield(b) {
					return
				}
			}
		}
	}
}

// overlapping returns the blocks with samples from mint to maxt, both inclusive.
func (t *Tenant) overlapping(mint, maxt int64) iter.Seq[*block] {
	return func(yield func(*block) bool) {
		// A block that starts earlier than mint minus the longest duration ends before mint.
		first := sort.Search(len(t.blocks), func(i int) bool {
			start := t.blocks[i].minTime
			return start >= mint || mint-start <= t.longest
		})
		for _, b := range t.blocks[first:] {
			if b.minTime > maxt {
				return
			}
			// maxTime is exclusive, except that a block of a single instant has maxTime == minTime.
			if (b.maxTime > mint || b.maxTime == b.minTime && b.minTime >= mint) && !yield(b) {
				return
			}
		}
	}
}

// BlockIDLabel is the label that stands for a block's id in block matchers, as in the hints of Thanos and
// Mimir.
const BlockIDLabel = "__block_id__"

// HasBlocks reports whether a tenant has blocks with samples from mint to maxt, both inclusive.
func (s *Syncer) HasBlocks(tenant string, mint, maxt int64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := s.set.tenants[tenant]
	if t == nil {
		t = s.set.tenants[""]
	}
	if t != nil {
		for range t.overlapping(mint, maxt) {
			return true
		}
	}
	return false
}

// Open pins a tenant's blocks that have samples from mint to maxt, both inclusive, and whose ids match all
// ids. Of downsampled blocks, whose samples other blocks have too, it pins those that the resolution prefers.
// The caller releases each handle. Open also returns the tenant's set that the handles come from, or nil
// if there is none. Layouts without tenants ignore tenant. Open does no I/O and allocates twice, unless there are
// downsampled blocks.
func (s *Syncer) Open(tenant string, mint, maxt int64, r Resolution, ids ...*labels.Matcher) ([]*Handle, *Tenant) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := s.set.tenants[tenant]
	if t == nil {
		t = s.set.tenants[""]
	}
	if t == nil {
		return nil, nil
	}
	if t.coverage != nil {
		return t.coverage.open(mint, maxt, r, ids), t
	}
	n := 0
	for b := range t.overlapping(mint, maxt) {
		if matchesID(b, ids) {
			n++
		}
	}
	if n == 0 {
		return nil, t
	}
	handles := make([]Handle, 0, n)
	pinned := make([]*Handle, 0, n)
	for b := range t.overlapping(mint, maxt) {
		if matchesID(b, ids) {
			b.refs.Add(1)
			handles = append(handles, Handle{block: b, deletions: b.loadDeletions()})
			pinned = append(pinned, &handles[len(handles)-1])
		}
	}
	return pinned, t
}

func matchesID(b *block, ids []*labels.Matcher) bool {
	for _, m := range ids {
		if !m.Matches(b.id.String()) {
			return false
		}
	}
	return true
}
