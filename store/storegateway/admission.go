package storegateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/store/promapi"
)

// An Admission describes a request that will read blocks. The zero value requests all bytes of a query.
type Admission struct {
	Tenant    string // owner of the blocks; "" in buckets without tenants
	Client    string // address; without tenants, requests of different clients are admitted in turn
	Demand    Demand
	AllShards bool // the client queries all shards: blocks of other shards do not count as missing
}

// A Demand is the amount of memory that a request is expected to use. A request that exceeds it grows or
// fails.
type Demand uint8

// Demands of requests.
const (
	WholeQuery  Demand = iota // all bytes of a query
	PartQuery                 // reads references first: admitted with a part, then grows to the bytes that the references require
	StreamQuery               // sends batches and frames: admitted with a part, then grows
	LightQuery                // labels, metadata, expressions without series: the lane of light queries
)

// Admit blocks until the gate grants the bytes that the request needs, and returns a query, which the caller
// closes. It fails with a *queueError after Options.QueueTimeout, and with slab.ErrQueueFull if the queue of
// the tenant or client is full.
func (g *Gateway) Admit(ctx context.Context, a Admission) (*Query, error) {
	return g.admit(ctx, a, g.ask(a))
}

// ask returns the bytes that a request is admitted with, and its queue.
func (g *Gateway) ask(a Admission) slab.AdmitOptions {
	ask := slab.AdmitOptions{Key: tenantKey + a.Tenant}
	if a.Tenant == "" && a.Client != "" {
		ask.Key = clientKey + a.Client
	}
	s := g.options.Gate.Stats()
	switch {
	case a.Demand == LightQuery && s.Light > 0:
		ask.Light, ask.First = true, min(max(s.Light/lightQueries, 1), s.PerQuery)
	case a.Demand == StreamQuery:
		ask.First = max(s.PerQuery/4, 1)
	case a.Demand == PartQuery:
		ask.First = firstBytes(s.PerQuery, 0)
	}
	return ask
}

// firstBytes returns the bytes that a query is admitted with on the given attempt. They rise with each
// attempt, up to perQuery.
func firstBytes(perQuery int64, attempt int) int64 {
	switch attempt {
	case 0:
		return max(perQuery/16, min(perQuery, 1<<20))
	case 1:
		return max(perQuery/4, min(perQuery, 1<<20))
	}
	return perQuery
}

// askAgain returns the bytes for another attempt of a request that failed to grow: at least the bytes that it
// tried to reserve, and more than before. A light query first retries with more of its lane, then outside it.
func (g *Gateway) askAgain(a slab.AdmitOptions, attempt int, failed error) slab.AdmitOptions {
	s := g.options.Gate.Stats()
	needed := int64(0)
	if e, ok := errors.AsType[*slab.LimitError](failed); ok {
		needed = e.Held + e.Requested
	}
	if a.Light && attempt == 1 && needed <= s.Light {
		a.First = min(max(s.Light/2, needed), s.PerQuery)
		return a
	}
	a.Light, a.First = false, firstBytes(s.PerQuery, attempt)
	a.First = min(max(a.First, needed), s.PerQuery)
	return a
}

// lightQueries is the number of light queries that the bytes of their lane admit concurrently.
const lightQueries = 8

// admit blocks until the gate grants the bytes of ask.
func (g *Gateway) admit(ctx context.Context, a Admission, ask slab.AdmitOptions) (*Query, error) {
	wait, cancel := context.WithTimeoutCause(ctx, g.options.QueueTimeout, &queueError{g.options.QueueTimeout})
	defer cancel()
	quota, err := g.options.Gate.AdmitFor(wait, ask)
	if err != nil {
		if m := g.options.Limiter; m != nil && errors.Is(err, slab.ErrQueueFull) {
			m.refuse(ask.Key)
		}
		return nil, err
	}
	q := &Query{gateway: g, tenant: a.Tenant, quota: quota, open: make(map[part]struct{}), shards: a.AllShards}
	quota.OnShort(q.reclaim)
	if d := g.options.Limits.Duration; d > 0 {
		q.deadline = time.Now().Add(d)
	}
	return q, nil
}

// A queueError reports that a query was not admitted in time.
type queueError struct{ After time.Duration }

// Error implements error. The text names the flags to raise.
func (e *queueError) Error() string {
	return fmt.Sprintf("the query was not admitted within %s: retry later, or raise the options queue-timeout or process-bytes", e.After)
}

// CheckTenant returns errNoTenant or ErrBadTenant if a request of the tenant, "" for none, cannot be served.
func (g *Gateway) CheckTenant(tenant string) error {
	switch {
	case g.Status().Layout != blocksync.LayoutMimir:
		return nil
	case tenant == "":
		return errNoTenant
	case !blocksync.ValidTenant(tenant):
		return ErrBadTenant
	}
	return nil
}

// tenantHeader is the HTTP header that names the tenant of a request, as in Mimir.
const tenantHeader = "X-Scope-OrgID"

// Errors of CheckTenant.
var (
	ErrBadTenant = fmt.Errorf("%s is no name of a tenant: want up to %d letters, digits and !-_.*'()", tenantHeader, blocksync.MaxTenant)
	errNoTenant  = errors.New("the bucket has tenants, and the request names none: send " + tenantHeader)
)

// RetryMode reports how to retry a request that failed before it sent any data: because the process had no free
// bytes for it to grow, or because it read a block that has left the bucket, or that is damaged and is then not served
// for a while. In the second case RetryMode blocks until a sync has found the current blocks.
func (g *Gateway) RetryMode(ctx context.Context, err error) promapi.RetryMode {
	if errors.Is(err, slab.ErrShort) {
		return promapi.RetryLarger
	}
	if g.SkipDamaged(ctx, err) {
		return promapi.RetrySame
	}
	switch resynced, served := g.ResyncAfter(ctx, err); {
	case !resynced:
		return promapi.NoRetry
	case served:
		return promapi.RetryLarger
	}
	return promapi.RetrySame
}
