package sqlplan

import (
	"fmt"
	"sync/atomic"

	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/sizegen/bytecache"
)

// A Refusal is the reason why a plan was not offered to the cache.
type Refusal uint8

const (
	keep Refusal = iota
	// RefusedIncomplete : the whole normalized text was not known.
	RefusedIncomplete
	// RefusedLong : the normalized text is longer than Options.MaxCachedStatement.
	RefusedLong
	// RefusedList : a list has more items than Options.MaxListItems.
	RefusedList
	// RefusedScope : the scope is not that of schema, user and mode under the current rules: it was computed
	// before SetRules, or is not Divergent for a statement that is.
	RefusedScope
	refusals
)

var refusalNames = [refusals]string{"", "incomplete", "long", "list", "scope"}

// String returns the label of the refusal in metrics.
func (r Refusal) String() string {
	if r < refusals {
		return refusalNames[r]
	}
	return fmt.Sprintf("Refusal(%d)", uint8(r))
}

// Refusals lists the reasons in the order of Stats.Refused.
func Refusals() []Refusal {
	return []Refusal{RefusedIncomplete, RefusedLong, RefusedList, RefusedScope}
}

type counts struct {
	refused          [refusals]atomic.Uint64
	parsed, unparsed atomic.Uint64
}

// Stats are the counters of a planner and its cache since the planner was created.
type Stats struct {
	// Cache has bytes, capacity, entries, hits, misses, evictions by reason, and the rejections by the
	// cache's policy.
	Cache bytecache.Stats

	// Refused counts the plans not offered to the cache, indexed by Refusal.
	Refused [refusals]uint64

	// Parsed and Unparsed count the plans of parsed and of unparsed statements.
	Parsed, Unparsed uint64
}

// Stats returns the counters. It is meant for scrapes and pages, not for each statement.
func (p *Planner) Stats() Stats {
	s := Stats{
		Cache:    p.cache.Stats(),
		Parsed:   p.counts.parsed.Load(),
		Unparsed: p.counts.unparsed.Load(),
	}
	for i := range s.Refused {
		s.Refused[i] = p.counts.refused[i].Load()
	}
	return s
}

// Bytes returns the heap bytes of the cached plans with all overhead: dropping the cache would free them.
func (p *Planner) Bytes() int64 { return p.cache.Bytes() }

// Capacity returns the upper bound of Bytes.
func (p *Planner) Capacity() int64 { return p.cache.Capacity() }

// A CachedPlan is one row of the page of largest plans.
type CachedPlan struct {
	Digest sqldigest.Digest
	Scope  Scope
	Plan   *Plan
	Bytes  int64 // with its entry in the cache
}

// Each calls visit for each cached plan. A digest has one in each scope.
func (p *Planner) Each(visit func(d sqldigest.Digest, plan *Plan)) {
	for k, plan := range p.cache.All() {
		visit(k.digest, plan)
	}
}

// Largest returns the n largest cached plans, largest first.
func (p *Planner) Largest(n int) []CachedPlan {
	entries := p.cache.Largest(n)
	plans := make([]CachedPlan, len(entries))
	for i, e := range entries {
		plans[i] = CachedPlan{Digest: e.Key.digest, Scope: e.Key.scope, Plan: e.Value, Bytes: e.Bytes}
	}
	return plans
}
