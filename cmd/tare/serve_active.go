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

	"github.com/taredb/tare/fleet/frontend"
	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/store/tsblock"
	"github.com/taredb/tare/web"
)

// Bounds of a request for active series.
const (
	// activeIdle is the time after its last call for which a digest's series are active: Mimir's default.
	activeIdle = 20 * time.Minute

	activeRequests   = 4 // concurrently
	activeShards     = 128
	activeTimeout    = time.Minute
	activeMergeBytes = 16 << 20
)

// An activeService serves the active series of this gateway.
type activeService struct {
	table  *stmtstats.Table
	labels func() map[string]string // of the series; nil until the gateway listens or without a history
	active atomic.Pointer[history.Active]
	front  *frontend.Frontend
}

// newActiveService returns a service for the table that counts digests, nil if there is none. If a history is
// written, the series have its labels.
func newActiveService(table *stmtstats.Table, labels func() map[string]string, spans *frontend.Spans, queries *querylog.Logger, log *slog.Logger) (*activeService, error) {
	if table == nil {
		return nil, nil
	}
	a := &activeService{table: table, labels: labels}
	var err error
	a.front, err = frontend.NewLocal(a, frontend.Options{
		MaxShards: activeShards, MaxRequests: activeRequests, MergeBytes: activeMergeBytes, Timeout: activeTimeout, Spans: spans, Log: queries, Diag: log,
	})
	if err != nil {
		return nil, fmt.Errorf("active series: %w", err)
	}
	return a, nil
}

// collectors returns the metrics of its requests.
func (a *activeService) collectors() []prometheus.Collector {
	if a == nil {
		return nil
	}
	return a.front.Collectors()
}

// begin starts the service for a listening gateway.
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

// current returns the active series with the labels of the history, which change when the clock is set back
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

// heapBytes returns the memory of the service.
func (a *activeService) heapBytes() int64 {
	if a == nil || a.active.Load() == nil {
		return 0
	}
	return a.active.Load().HeapBytes()
}

// routes returns the endpoints of the API.
func (a *activeService) routes() []web.Route {
	if a == nil {
		return nil
	}
	var routes []web.Route
	for i, pattern := range frontend.SeriesPatterns() {
		r := web.NewRoute(access.For(access.Viewer).WithTexts(), pattern, a.front).Traced()
		if i == 0 {
			r = r.Listed("/api/v1/cardinality/active_series?selector=tare_queries_total", "recently called statements, as series that match the selector")
		}
		routes = append(routes, r)
	}
	return routes
}
