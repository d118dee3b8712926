package main

import (
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/frontend"
	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/stmtstats"
	"github.com/taredb/tare/tsblock"
	"github.com/taredb/tare/web"
)

// What an answer with active series may take.
const (
	// activeIdle is for how long after its last call a digest's series are active: as long as in
	// Mimir unless told otherwise.
	activeIdle = 20 * time.Minute

	activeRequests   = 4 // at the same time
	activeShards     = 128
	activeTimeout    = time.Minute
	activeMergeBytes = 16 << 20
)

// An activeService answers which of the gateway's own series are active.
type activeService struct {
	table  *stmtstats.Table
	labels func() map[string]string // of the series; nil until the gateway listens, without a history
	active atomic.Pointer[history.Active]
	front  *frontend.Frontend
}

// newActiveService answers from the table that counts digests, nil if none does. Where a history is
// written it has the history's labels.
func newActiveService(table *stmtstats.Table, labels func() map[string]string, queries *querylog.Logger, log *slog.Logger) (*activeService, error) {
	if table == nil {
		return nil, nil
	}
	a := &activeService{table: table, labels: labels}
	var err error
	a.front, err = frontend.NewLocal(a, frontend.Options{
		MaxShards: activeShards, MaxRequests: activeRequests, MergeBytes: activeMergeBytes, Timeout: activeTimeout, Log: queries, Diag: log,
	})
	if err != nil {
		return nil, fmt.Errorf("active series: %w", err)
	}
	return a, nil
}

// collectors are the metrics of its requests.
func (a *activeService) collectors() []prometheus.Collector {
	if a == nil {
		return nil
	}
	return a.front.Collectors()
}

// begin begins to answer for a gateway that listens.
func (a *activeService) begin(listens net.Addr) error {
	if a == nil {
		return nil
	}
	if a.labels == nil {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("name the instance of active series: %w", err)
		}
		_, port, err := net.SplitHostPort(listens.String())
		if err != nil {
			return fmt.Errorf("name the instance of active series: %w", err)
		}
		named := map[string]string{history.InstanceLabel: net.JoinHostPort(host, port)}
		a.labels = func() map[string]string { return named }
	}
	active, err := history.NewActive(a.table, a.labels(), activeIdle)
	if err != nil {
		return err
	}
	a.active.Store(active)
	return nil
}

var _ frontend.ShardedLocal = (*activeService)(nil)

// ActiveSeries implements frontend.Local.
func (a *activeService) ActiveSeries(keep func(labels.Labels) bool) iter.Seq[labels.Labels] {
	return a.ActiveShard(tsblock.Shard{}, keep)
}

// ActiveShard implements frontend.ShardedLocal.
func (a *activeService) ActiveShard(shard tsblock.Shard, keep func(labels.Labels) bool) iter.Seq[labels.Labels] {
	if active := a.current(); active != nil {
		return active.ActiveShard(shard, keep)
	}
	return func(func(labels.Labels) bool) {} // not listening yet: nothing was called
}

// current returns the active series under the labels of the history, which change when the clock was set back
// too far.
func (a *activeService) current() *history.Active {
	active := a.active.Load()
	if active == nil || maps.Equal(active.Labels(), a.labels()) {
		return active
	}
	next, err := history.NewActive(a.table, a.labels(), activeIdle)
	if err != nil || !a.active.CompareAndSwap(active, next) {
		return a.active.Load()
	}
	return next
}

// heapBytes is what is kept to answer.
func (a *activeService) heapBytes() int64 {
	if a == nil || a.active.Load() == nil {
		return 0
	}
	return a.active.Load().HeapBytes()
}

// routes are the paths of the API.
func (a *activeService) routes() []web.Route {
	if a == nil {
		return nil
	}
	var routes []web.Route
	for i, pattern := range frontend.SeriesPatterns() {
		r := web.NewRoute(access.For(access.Viewer).WithTexts(), pattern, a.front)
		if i == 0 {
			r = r.Listed("/api/v1/cardinality/active_series?selector=tare_queries_total", "recently called statements, as series that match the selector")
		}
		routes = append(routes, r)
	}
	return routes
}
