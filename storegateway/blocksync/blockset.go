package blocksync

import (
	"cmp"
	"iter"
	"slices"
	"sort"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
)

// A blockSet is the blocks that are served, as one sync has found them. It does not change.
type blockSet struct {
	tenants  map[string]*Tenant
	foreign  int    // objects and directories among the tenants that are none
	stranger string // one of them
}

// A Tenant is the blocks of a tenant, as one sync has found them. nil has none.
type Tenant struct {
	blocks   []*block // by minTime, then id
	byID     map[ulid.ULID]*block
	longest  int64 // of a block, in milliseconds: a query need not look further back
	skipped  []SkippedBlock
	others   int // blocks of other shards
	gaps     []gap
	foreign  int
	stranger string // a foreign object
	err      error  // why the tenant could not be synced; the blocks are those of before

	otherShards map[ulid.ULID]otherBlock // what is known of the blocks of other shards
}

// An otherBlock is a block of another shard.
type otherBlock struct {
	blockTimes
	ignored bool // it is marked for deletion, or not in the bucket as a whole
}

func newBlockSet() *blockSet { return &blockSet{tenants: make(map[string]*Tenant)} }

func newTenant() *Tenant {
	return &Tenant{byID: make(map[ulid.ULID]*block), otherShards: make(map[ulid.ULID]otherBlock)}
}

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

// all returns the blocks of all tenants, tenants in no order.
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

// has reports whether a block of any tenant is in the set.
func (s *blockSet) has(id ulid.ULID) bool {
	for _, t := range s.tenants {
		if t.byID[id] != nil {
			return true
		}
	}
	return false
}

// overlapping returns the blocks with samples from mint to maxt, both inclusive.
func (t *Tenant) overlapping(mint, maxt int64) iter.Seq[*block] {
	return func(yield func(*block) bool) {
		// A block that begins further back than the longest block is long ends before mint.
		first := sort.Search(len(t.blocks), func(i int) bool {
			start := t.blocks[i].minTime
			return start >= mint || mint-start <= t.longest
		})
		for _, b := range t.blocks[first:] {
			if b.minTime > maxt {
				return
			}
			// maxTime is exclusive, but where a block has one instant both are the same.
			if (b.maxTime > mint || b.maxTime == b.minTime && b.minTime >= mint) && !yield(b) {
				return
			}
		}
	}
}

// BlockIDLabel is the name that block matchers give to a block's id, as Thanos' and Mimir's
// hints do.
const BlockIDLabel = "__block_id__"

// Open pins a tenant's blocks that have samples from mint to maxt, both inclusive, and that all
// matchers of BlockIDLabel match; each has to be released. It returns the tenant's blocks of which they
// are too, nil if there are none. Layouts without tenants take every tenant for the one they have. It
// does no I/O and allocates twice.
func (s *Syncer) Open(tenant string, mint, maxt int64, ids ...*labels.Matcher) ([]*Handle, *Tenant) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := s.set.tenants[tenant]
	if t == nil {
		t = s.set.tenants[""]
	}
	if t == nil {
		return nil, nil
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
