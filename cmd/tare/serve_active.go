package main

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/frontend"
	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/history"
	"github.com/taredb/tare/querylog"
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

	// The table that digests are counted in when no history is kept. Its memory is taken as digests come.
	activeDigests    = 10_000
	activeTableBytes = 16 << 20
)

// An activeService answers which of the gateway's own series are active.
type activeService struct {
	table  *history.Table
	own    bool              // nobody else reads the table
	labels map[string]string // nil until the gateway listens, for who keeps no history
	active atomic.Pointer[history.Active]
	front  *frontend.Frontend
}

// newActiveService answers from the history's table and with its labels. Without a history the table
// is nil, and one of its own counts what it observes.
func newActiveService(table *history.Table, labels map[string]string, redact querylog.Redaction, log *slog.Logger) (*activeService, error) {
	a := &activeService{table: table, labels: labels, own: table == nil}
	var err error
	if a.own {
		a.table, err = history.OpenTable(history.Options{MaxDigests: activeDigests, Bytes: activeTableBytes, Redaction: redact, Slog: log})
		if err != nil {
			return nil, err
		}
	}
	a.front, err = frontend.NewLocal(a, frontend.Options{
		MaxShards: activeShards, MaxRequests: activeRequests, MergeBytes: activeMergeBytes, Timeout: activeTimeout, Diag: log,
	})
	if err != nil {
		return nil, fmt.Errorf("active series: %w", err)
	}
	return a, nil
}

// observers are who has to be told of statements for it.
func (a *activeService) observers() []gateway.Observer {
	if a == nil || !a.own {
		return nil
	}
	return []gateway.Observer{a.table}
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
		a.labels = map[string]string{history.InstanceLabel: net.JoinHostPort(host, port)}
	}
	active, err := history.NewActive(a.table, a.labels, activeIdle)
	if err != nil {
		return err
	}
	a.active.Store(active)
	return nil
}

// ActiveSeries implements frontend.Local.
func (a *activeService) ActiveSeries(keep func(labels.Labels) bool) iter.Seq[labels.Labels] {
	if active := a.active.Load(); active != nil {
		return active.ActiveSeries(keep)
	}
	return func(func(labels.Labels) bool) {} // not listening yet: nothing was called
}

// routes are the paths of the API.
func (a *activeService) routes() []web.Route {
	if a == nil {
		return nil
	}
	var routes []web.Route
	for i, pattern := range frontend.SeriesPatterns() {
		r := web.Route{Pattern: pattern, Handler: a.front}
		if i == 0 {
			r.Path = "/api/v1/cardinality/active_series?selector=tare_queries_total"
			r.What = "statements that were called lately, as series; the selector says which"
		}
		routes = append(routes, r)
	}
	return routes
}

// run lets digests that are not called any more make room for others, which the history does for its
// own table. The table is not closed: sessions may count up to the end of the process.
func (a *activeService) run(ctx context.Context) error {
	if a == nil || !a.own {
		return nil
	}
	every := time.NewTicker(15 * time.Second)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
			if err := a.table.Collect(func(*history.Sample) error { return nil }); err != nil {
				return fmt.Errorf("collect digests: %w", err)
			}
		}
	}
}
