package storegateway

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/taredb/tare/internal/slab"
)

// TenantLimits bound the queries of tenants and of clients.
type TenantLimits struct {
	Default slab.KeyLimits            // of each other tenant, or client of a bucket without tenants
	Tenants map[string]slab.KeyLimits // by name
	Clients map[string]slab.KeyLimits // by address
}

// A Limiter has the current limits and counts refusals by tenant. It is safe for concurrent use.
type Limiter struct {
	limits atomic.Pointer[TenantLimits]

	mu      sync.Mutex
	refused map[limitedName]uint64
}

// A limitedName is a tenant or client with its own limits, or stands for all others.
type limitedName struct{ kind, name string }

// Kinds of names in metrics.
const (
	kindTenant = "tenant"
	kindClient = "client"

	// otherNames stands for all tenants, or clients, without their own limits, so that the cardinality of
	// metrics does not grow with them. No tenant and no client can have this name.
	otherNames = "<other>"
)

// NewLimiter returns a limiter. Pass its method Limits to slab.GateOptions.
func NewLimiter(l TenantLimits) *Limiter {
	m := &Limiter{refused: make(map[limitedName]uint64)}
	m.limits.Store(&l)
	return m
}

// Set replaces the limits. The caller makes the gate recheck its queue.
func (m *Limiter) Set(l TenantLimits) { m.limits.Store(&l) }

// Limits returns the limits of a key of the gate.
func (m *Limiter) Limits(key string) slab.KeyLimits {
	all := m.limits.Load()
	if name, ok := strings.CutPrefix(key, tenantKey); ok {
		if l, ok := all.Tenants[name]; ok {
			return l
		}
	} else if l, ok := all.Clients[strings.TrimPrefix(key, clientKey)]; ok {
		return l
	}
	return all.Default
}

// nameOf returns the name that a key is counted under.
func (m *Limiter) nameOf(key string) limitedName {
	all := m.limits.Load()
	name, ok := strings.CutPrefix(key, tenantKey)
	n := limitedName{kindTenant, name}
	named := all.Tenants
	if !ok {
		n, named = limitedName{kindClient, strings.TrimPrefix(key, clientKey)}, all.Clients
	}
	if _, ok := named[n.name]; !ok {
		n.name = otherNames
	}
	return n
}

// refuse counts a query that was refused because the queue of its key is full.
func (m *Limiter) refuse(key string) {
	n := m.nameOf(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused[n]++
}

// A limitedCount has the current queries of a name, and its refusals since the start.
type limitedCount struct {
	slab.KeyStats
	refused uint64
}

// counts returns the counts of all names that have limits, and of all others.
func (m *Limiter) counts(g *slab.Gate) map[limitedName]limitedCount {
	all := m.limits.Load()
	counts := map[limitedName]limitedCount{{kindTenant, otherNames}: {}, {kindClient, otherNames}: {}}
	for name := range all.Tenants {
		counts[limitedName{kindTenant, name}] = limitedCount{}
	}
	for name := range all.Clients {
		counts[limitedName{kindClient, name}] = limitedCount{}
	}
	g.Keys(func(key string, s slab.KeyStats) {
		n := m.nameOf(key)
		c := counts[n]
		c.Running += s.Running
		c.Waiting += s.Waiting
		c.Bytes += s.Bytes
		counts[n] = c
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, refused := range m.refused {
		if c, ok := counts[n]; ok { // false for names that a reload removed
			c.refused = refused
			counts[n] = c
		}
	}
	return counts
}

// sortedNames returns the names of counts, sorted.
func sortedNames(counts map[limitedName]limitedCount) []limitedName {
	return slices.SortedFunc(maps.Keys(counts), func(a, b limitedName) int {
		return strings.Compare(a.kind+" "+a.name, b.kind+" "+b.name)
	})
}

// Prefixes of the gate's keys.
const (
	tenantKey = "tenant "
	clientKey = "client "
)
