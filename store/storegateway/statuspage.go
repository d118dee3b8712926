package storegateway

import (
	"net/http"

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/visible"
)

// A StatusPage is the content of the page of blocks and budgets. Its JSON is stable.
type StatusPage struct {
	Sync    blocksync.SyncStatus     `json:"sync"`
	Budgets Budgets                  `json:"budgets"`
	Blocks  []blocksync.BlockInfo    `json:"blocks"`
	Skipped []blocksync.SkippedBlock `json:"skipped"`
}

// Budgets are the limits and the use of the gateway's memory.
type Budgets struct {
	Process int64 `json:"process_bytes"` // limit of all queries together
	Query   int64 `json:"query_bytes"`   // limit of one query
	Held    int64 `json:"held_bytes"`    // in use by queries
	Peak    int64 `json:"peak_bytes"`    // highest use
	Running int   `json:"running"`       // running queries
	Waiting int   `json:"waiting"`       // queries in the admission queue
	Most    int   `json:"most_running"`  // maximum of running queries
	Refused int64 `json:"refused"`       // reservations that did not fit

	Slabs Slabs      `json:"slabs"`
	Cache IndexCache `json:"index_cache"`
	Disk  *DiskCache `json:"disk_cache,omitempty"` // nil: none

	Shared *SharedCache `json:"memcached,omitempty"` // nil: none
}

// Slabs are the memory that chunks are read into.
type Slabs struct {
	Lent  int64 `json:"lent_bytes"`
	Idle  int64 `json:"idle_bytes"`
	Calls int64 `json:"calls"` // slabs lent, since the start
	Made  int64 `json:"made"`  // of those, slabs that had to be allocated
}

// IndexCache is the memory that caches pages of block indexes.
type IndexCache struct {
	Capacity int64  `json:"capacity_bytes"`
	Bytes    int64  `json:"bytes"`
	Pages    int    `json:"pages"`
	Hits     uint64 `json:"hits"`
	Misses   uint64 `json:"misses"`
}

// DiskCache is the file that caches pages of indexes and chunk files.
type DiskCache struct {
	Capacity int64  `json:"capacity_bytes"`
	Bytes    int64  `json:"bytes"`
	Pages    int64  `json:"pages"`
	Hits     uint64 `json:"hits"`
	Misses   uint64 `json:"misses"`
	Writable bool   `json:"writable"` // false after a failed write, until one succeeds
}

// SharedCache are the memcached servers that cache the same pages for several processes.
type SharedCache struct {
	Servers int    `json:"servers"`
	Paused  int    `json:"paused"` // of them, servers that are not called because their calls fail
	Queued  int64  `json:"queued_bytes"`
	Hits    uint64 `json:"hits"`
	Misses  uint64 `json:"misses"`
	Failed  uint64 `json:"failed"` // pages whose call failed, or was not made
}

// StatusPage returns the current status of the gateway.
func (g *Gateway) StatusPage() StatusPage {
	gate, pool, cache := g.options.Gate.Stats(), g.options.Pool.Stats(), g.options.Cache.Stats()
	p := StatusPage{
		Sync: g.Status(),
		Budgets: Budgets{
			Process: gate.Bytes, Query: gate.PerQuery, Held: gate.Held, Peak: gate.Peak,
			Running: gate.Running, Waiting: gate.Waiting, Most: gate.Queries, Refused: gate.Refused,
			Slabs: Slabs{Lent: pool.OutBytes, Idle: pool.IdleBytes, Calls: pool.Calls, Made: pool.Made},
			Cache: IndexCache{
				Capacity: cache.Capacity, Bytes: cache.Bytes, Pages: int(cache.Entries),
				Hits: cache.Hits, Misses: cache.Misses,
			},
		},
		Blocks: g.Blocks(), Skipped: g.Skipped(),
	}
	if disk := g.options.Disk; disk != nil {
		s := disk.Stats()
		p.Budgets.Disk = &DiskCache{s.Capacity, s.Bytes, s.Entries, s.Hits, s.Misses, s.Writable}
	}
	if shared := g.options.Shared; shared != nil {
		s := shared.Stats()
		p.Budgets.Shared = &SharedCache{len(s.Servers), s.Paused(), s.Queued, s.Hits, s.Misses, s.Failed + s.Skipped}
	}
	if p.Skipped == nil {
		p.Skipped = []blocksync.SkippedBlock{}
	}
	return p
}

// StatusHandler serves the StatusPage as JSON, in the envelope of Prometheus' HTTP API.
func StatusHandler(g *Gateway) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		// A failed write means that the client disconnected.
		_ = visible.NewEncoder(w).Encode(struct {
			Status string     `json:"status"`
			Data   StatusPage `json:"data"`
		}{"success", g.StatusPage()})
	})
}
