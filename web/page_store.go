package web

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/store/storegateway"
)

// A storePage shows the blocks of a bucket and the budgets of queries.
type storePage struct {
	source func() storegateway.StatusPage
	first  bool // the front page
	listed func(access.Account) []endpoint
}

// storeData is the data of the page.
type storeData struct {
	Sync     blocksync.SyncStatus
	SyncedAt string
	GoodAt   string

	FailingAt string // of the first of the consecutive failed syncs; "": none failed

	Seconds float64
	Budgets storegateway.Budgets

	Tenant  string // selected tenant; "" for all
	Tenants []tenantLink
	All     blockSum
	Loaded  uint64
	Line    timeLine
	Blocks  []blockRow
	More    uint64 // blocks after the listed ones
	Next    string // link to them; "" if there are none
	Back    string
	Sizes   bool // uploaders recorded the size of some blocks

	Groups      []skippedGroup
	Skipped     []blocksync.SkippedBlock
	MoreSkipped uint64

	HitShare float64 // of the index cache; -1: there were no lookups
	Reused   float64 // fraction of slabs that were reused; -1: none was used

	Endpoints []endpoint // of a server with no other function
}

// A tenantLink is a link to the blocks of one tenant.
type tenantLink struct {
	Name, Link string
	Here       bool
}

// maxTenantLinks bounds the tenants that have a link.
const maxTenantLinks = 50

// A blockRow is one block in the table.
type blockRow struct {
	ID, Tenant string
	From, To   time.Time
	Level      int
	Series     float64
	Samples    float64
	Bytes      float64
	Labels     string
	State      string
}

func (s *storePage) load(_ context.Context, v *view) (any, error) {
	p := s.source()
	d := storeData{
		Sync: p.Sync, SyncedAt: ago(p.Sync.Last, v.now), GoodAt: ago(p.Sync.LastGood, v.now), Seconds: p.Sync.Seconds,
		Budgets: p.Budgets, Tenant: v.query.Get("tenant"), HitShare: -1, Reused: -1,
	}
	if p.Sync.Failing != nil {
		d.FailingAt = ago(*p.Sync.Failing, v.now)
	}
	if s.first {
		d.Endpoints = s.listed(v.account)
	}
	if n := p.Budgets.Cache.Hits + p.Budgets.Cache.Misses; n > 0 {
		d.HitShare = float64(p.Budgets.Cache.Hits) / float64(n)
	}
	if n := p.Budgets.Slabs.Calls; n > 0 {
		d.Reused = 1 - float64(p.Budgets.Slabs.Made)/float64(n)
	}
	blocks := p.Blocks
	d.Tenants = tenantLinks(v, blocks, d.Tenant)
	if v.query.Has("tenant") {
		blocks = slices.DeleteFunc(slices.Clone(blocks), func(b blocksync.BlockInfo) bool { return b.Tenant != d.Tenant })
	}
	for i := range blocks {
		d.All.add(&blocks[i])
		if blocks[i].Loaded {
			d.Loaded++
		}
	}
	d.Sizes = d.All.Bytes > 0
	d.Line = timeLine{ID: "blocks", Title: "Blocks over time", From: d.All.From, To: d.All.To, Lanes: blockLanes(blocks, d.All.From, d.All.To)}
	if err := d.list(v, blocks); err != nil {
		return nil, err
	}
	d.Groups = skippedGroups(p.Skipped)
	d.Skipped = p.Skipped[:min(len(p.Skipped), listedSkipped)]
	d.MoreSkipped = uint64(len(p.Skipped) - len(d.Skipped))
	return d, nil
}

// list fills the table with one page of blocks, latest first.
func (d *storeData) list(v *view, blocks []blocksync.BlockInfo) error {
	at := 0
	if text := v.query.Get("page"); text != "" {
		var err error
		if at, err = strconv.Atoi(text); err != nil || at < 0 || at > 1<<20 {
			return badRequest(errPage, "Go back to the first page.")
		}
	}
	sorted := slices.Clone(blocks)
	slices.SortFunc(sorted, func(a, b blocksync.BlockInfo) int {
		if a.MaxTime != b.MaxTime {
			return int(min(max(b.MaxTime-a.MaxTime, -1), 1))
		}
		return strings.Compare(a.ID, b.ID)
	})
	first := min(at*listedBlocks, len(sorted))
	last := min(first+listedBlocks, len(sorted))
	for i := first; i < last; i++ {
		d.Blocks = append(d.Blocks, rowOf(&sorted[i]))
	}
	if d.More = uint64(len(sorted) - last); d.More > 0 {
		d.Next = v.with("page", strconv.Itoa(at+1))
	}
	if at == 1 {
		d.Back = v.with("page", "")
	} else if at > 1 {
		d.Back = v.with("page", strconv.Itoa(at-1))
	}
	return nil
}

func rowOf(b *blocksync.BlockInfo) blockRow {
	r := blockRow{
		ID: b.ID, Tenant: b.Tenant, From: time.UnixMilli(b.MinTime), To: time.UnixMilli(b.MaxTime), Level: b.Level,
		Series: float64(b.Series), Samples: float64(b.Samples), Bytes: float64(b.Bytes),
	}
	names := make([]string, 0, len(b.Labels))
	for name := range b.Labels {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		if i > 0 {
			r.Labels += ", "
		}
		r.Labels += name + "=" + b.Labels[name]
	}
	r.Labels = cutText(r.Labels, shownValue)
	var states []string
	if b.Loaded {
		states = append(states, "loaded")
	}
	if b.Queries > 0 {
		states = append(states, "in use")
	}
	if b.Marked != nil {
		states = append(states, "marked for deletion")
	}
	if b.NoCompact {
		states = append(states, "excluded from compaction")
	}
	if b.Gone != nil {
		states = append(states, "deleted from the bucket")
	}
	r.State = strings.Join(states, ", ")
	return r
}

func tenantLinks(v *view, blocks []blocksync.BlockInfo, here string) []tenantLink {
	var names []string
	for i := range blocks {
		if i == 0 || blocks[i].Tenant != blocks[i-1].Tenant { // sorted by tenant
			names = append(names, blocks[i].Tenant)
		}
	}
	if len(names) < 2 {
		return nil
	}
	links := []tenantLink{{Name: "all", Link: v.with("tenant", "", "page", ""), Here: !v.query.Has("tenant")}}
	for _, name := range names[:min(len(names), maxTenantLinks)] {
		links = append(links, tenantLink{Name: cutText(name, shownValue), Link: v.with("tenant", name, "page", ""), Here: v.query.Has("tenant") && name == here})
	}
	return links
}
