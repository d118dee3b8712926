package sqlplan

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/taredb/tare/sizegen/bytecache"
)

var heapMiB = flag.Int("heap-mib", 12, "size of the cache that TestAccountedBytesAreTheHeap fills, in MiB; make e2e uses 32")

// heapInUse returns the bytes of live objects.
func heapInUse() int64 {
	for range 3 {
		runtime.GC() // victims of a pool survive one cycle
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// runtimeOwn bounds the memory that waiting goroutines leave on the runtime's lists: it varies by some KiB,
// more than a percent of this small process' idle heap.
const runtimeOwn = 16 << 10

// within fails if got differs from want by more than one percent of of, or by more than the slack.
func within(t *testing.T, what string, got, want, of, slack int64) {
	t.Helper()
	t.Logf("%s: %d bytes, accounted %d (%+.3f %%)", what, got, want, float64(got-want)/float64(of)*100)
	if off := max(got-want, want-got); off > max(of/100, slack) {
		t.Errorf("%s: %d bytes on the heap, accounted %d: off by %d", what, got, want, off)
	}
}

// TestAccountedBytesAreTheHeap fills a planner with real plans, churns it from several goroutines until it has
// evicted thousands, and compares its account with the heap: with ten thousand plans, after the churn, and
// after dropping it.
func TestAccountedBytesAreTheHeap(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("fills megabytes of plans: slow under the race detector, to which the heap is the same")
	}
	capacity := int64(*heapMiB) << 20
	for _, w := range []struct {
		name string
		mix  mix
	}{{"oltp", oltp}, {"mapper", mapper}} {
		t.Run(w.name, func(t *testing.T) {
			warm(t, w.mix)
			idle := heapInUse()
			p, err := New(Options{CacheBytes: capacity})
			if err != nil {
				t.Fatal(err)
			}
			fill(p, w.mix, 11_000)
			filled := heapInUse() - idle
			if n := p.Stats().Cache.Entries; n < 10_000 {
				t.Errorf("only %d plans are kept", n)
			}
			within(t, "filled", filled, p.Bytes(), p.Bytes(), 0)
			churn(p, w.mix, 3000)
			within(t, "churned", heapInUse()-idle, p.Bytes(), p.Bytes(), 0)
			if p.Bytes() > capacity || p.Bytes() < capacity*9/10 {
				t.Errorf("%d bytes accounted of %d", p.Bytes(), capacity)
			}
			p.Invalidate()
			within(t, "invalidated", heapInUse()-idle, p.Bytes(), idle, runtimeOwn)
			runtime.KeepAlive(p)
			p = nil
			within(t, "dropped", heapInUse()-idle, 0, idle, runtimeOwn)
		})
	}
}

// warm plans part of the mix in a small cache, so that the parser, its pool and the runtime's lists reach
// their size.
func warm(t *testing.T, m mix) {
	p, err := New(Options{CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	fill(p, m, 1000)
	churn(p, m, 100)
}

// fill plans the first n statements of the mix.
func fill(p *Planner, m mix, n int) {
	r := rand.New(rand.NewPCG(1, 2))
	c := client{schema: "shop"}
	for i := range n {
		p.Plan(c.statement(p, m(r, i)))
	}
}

// churn plans statements of the mix for new schemas, from several goroutines, until the given number of plans
// has been evicted.
func churn(p *Planner, m mix, evictions uint64) {
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(3, uint64(g)))
			var sts []Statement
			for i := range 44 {
				c := client{user: "app"} // one digester per client: its text is the statement's
				sts = append(sts, c.statement(p, m(r, 100*i+g)))
			}
			for i := 0; ; i++ {
				st := sts[r.IntN(len(sts))]
				st.Schema = fmt.Appendf(nil, "tenant_%d_%d", g, i)
				st.Scope = p.ScopeOf(st.Schema, st.User, st.Mode)
				p.Plan(st)
				if s := p.Stats().Cache; i%100 == 0 && s.Evicted[bytecache.Capacity]+s.Evicted[bytecache.Contest] > evictions {
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestLargeStatementLeavesNothing asserts that a statement of two megabytes whose plan is cached leaves only
// the plan on the heap.
func TestLargeStatementLeavesNothing(t *testing.T) {
	p := newPlanner(t)
	warmUp := client{schema: "shop"}
	p.Plan(warmUp.statement(p, insertOf(2<<20)))
	p.Invalidate()
	before, accounted := heapInUse(), p.Bytes()
	func() {
		c := client{schema: "shop"}
		p.Plan(c.statement(p, insertOf(2<<20)))
	}()
	if p.Stats().Cache.Entries != 1 {
		t.Fatal("the plan is not kept")
	}
	grown, plan := heapInUse()-before, p.Bytes()-accounted
	t.Logf("heap grew by %d bytes, the plan is accounted with %d", grown, plan)
	if grown > plan+runtimeOwn || grown < plan-runtimeOwn {
		t.Errorf("heap grew by %d bytes, the plan is accounted with %d", grown, plan)
	}
	runtime.KeepAlive(p)
	runtime.KeepAlive(&warmUp)
}
