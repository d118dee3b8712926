package storegateway

import (
	"encoding/json"
	"net/http"

	"github.com/taredb/tare/storegateway/blocksync"
)

// A StatusPage is what the page of blocks and budgets shows. Its JSON is stable.
type StatusPage struct {
	Sync    blocksync.SyncStatus     `json:"sync"`
	Budgets Budgets                  `json:"budgets"`
	Blocks  []blocksync.BlockInfo    `json:"blocks"`
	Skipped []blocksync.SkippedBlock `json:"skipped"`
}

// Budgets are the bytes that the gateway may hold, and does.
type Budgets struct {
	Process int64 `json:"processBytes"` // of all queries together
	Query   int64 `json:"queryBytes"`   // of one
	Held    int64 `json:"heldBytes"`    // by queries, now
	Peak    int64 `json:"peakBytes"`    // the most that was
	Running int   `json:"running"`      // queries
	Waiting int   `json:"waiting"`      // for their quota
	Most    int   `json:"mostRunning"`  // that there may be
	Refused int64 `json:"refused"`      // reservations that did not fit

	Slabs Slabs      `json:"slabs"`
	Cache IndexCache `json:"indexCache"`
}

// Slabs are the memory that chunks are read into.
type Slabs struct {
	Lent  int64 `json:"lentBytes"`
	Idle  int64 `json:"idleBytes"`
	Calls int64 `json:"calls"` // slabs lent, since the start
	Made  int64 `json:"made"`  // of them, those that had to be made
}

// IndexCache is the memory that keeps pages of block indexes.
type IndexCache struct {
	Capacity int64  `json:"capacityBytes"`
	Bytes    int64  `json:"bytes"`
	Pages    int    `json:"pages"`
	Hits     uint64 `json:"hits"`
	Misses   uint64 `json:"misses"`
}

// StatusPage returns what the gateway serves and holds.
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
	if p.Skipped == nil {
		p.Skipped = []blocksync.SkippedBlock{}
	}
	return p
}

// StatusHandler answers the StatusPage as JSON, in the envelope of Prometheus' HTTP API.
func StatusHandler(g *Gateway) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		// A client that leaves early is its own error.
		_ = json.NewEncoder(w).Encode(struct {
			Status string     `json:"status"`
			Data   StatusPage `json:"data"`
		}{"success", g.StatusPage()})
	})
}
