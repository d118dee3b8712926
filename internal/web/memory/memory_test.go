package memory

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/mysql/sqldigest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon")) // sqlparser's log
}

// metricsOf returns a collector's metrics, in Prometheus' text format without its comments.
func metricsOf(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		f.Help = nil
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

// TestLedger has an owner grow after the base was measured: the sum follows the heap.
func TestLedger(t *testing.T) {
	var kept [][]byte
	var held atomic.Int64
	l := NewLedger(Owner{"kept", held.Load})
	if off := l.Sum() - HeapInUse(); off > 64<<10 || off < -64<<10 {
		t.Errorf("at start the sum is off by %d bytes", off)
	}
	for range 100 {
		kept = append(kept, make([]byte, 64<<10))
		held.Add(64 << 10)
	}
	if off := l.Sum() - HeapInUse(); off > 64<<10 || off < -64<<10 {
		t.Errorf("with 100 buffers the sum is off by %d bytes", off)
	}
	l.base = 7
	if got, want := l.ByOwner(), []OwnerBytes{{"kept", 6553600}, {BaseOwner, 7}}; !slices.Equal(got, want) {
		t.Errorf("holdings: %v, want %v", got, want)
	}
	want := "# TYPE tare_heap_bytes gauge\ntare_heap_bytes{owner=\"base\"} 7\ntare_heap_bytes{owner=\"kept\"} 6.5536e+06\n"
	if got := metricsOf(t, l); got != want {
		t.Errorf("metrics:\n%s\nwant:\n%s", got, want)
	}
	runtime.KeepAlive(kept)
}

func newPlanner(t *testing.T, capacity int64, texts ...string) *sqlplan.Planner {
	t.Helper()
	p, err := sqlplan.New(sqlplan.Options{CacheBytes: capacity, MaxCachedStatement: 200})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		var d sqldigest.Digester
		digest := d.Digest([]byte(text), 0)
		if p.Get(digest, p.ScopeOf([]byte("shop"), nil, 0)) == nil {
			p.Plan(sqlplan.Statement{
				SQL: []byte(text), Complete: true, Text: d.Text(), Digest: digest,
				Scope: p.ScopeOf([]byte("shop"), nil, 0), Schema: []byte("shop"),
			})
		}
	}
	return p
}

// TestPlanCache reads the metrics of a planner after hits, misses, refusals and evictions.
func TestPlanCache(t *testing.T) {
	p := newPlanner(t, 1<<20, "SELECT a FROM t WHERE id = 1", "SELECT a FROM t WHERE id = 2",
		"INSERT INTO t VALUES (1)", "SELECT "+strings.Repeat("a, ", 100)+"b FROM t")
	p.Invalidate()
	got := metricsOf(t, NewPlanCache(p, func() uint64 { return 3 }))
	overhead := fmt.Sprint(p.Stats().Cache.Overhead)
	want := `
# TYPE tare_plan_cache_admissions_refused_total counter
tare_plan_cache_admissions_refused_total{reason="large"} 0
tare_plan_cache_admissions_refused_total{reason="policy"} 0
tare_plan_cache_admissions_refused_total{reason="stale"} 0
# TYPE tare_plan_cache_admissions_total counter
tare_plan_cache_admissions_total 2
# TYPE tare_plan_cache_bytes gauge
tare_plan_cache_bytes ` + overhead + `
# TYPE tare_plan_cache_capacity_bytes gauge
tare_plan_cache_capacity_bytes 1.048576e+06
# TYPE tare_plan_cache_entries gauge
tare_plan_cache_entries 0
# TYPE tare_plan_cache_evictions_total counter
tare_plan_cache_evictions_total{reason="capacity"} 0
tare_plan_cache_evictions_total{reason="cleared"} 2
tare_plan_cache_evictions_total{reason="contest"} 0
tare_plan_cache_evictions_total{reason="deleted"} 0
tare_plan_cache_evictions_total{reason="replaced"} 0
# TYPE tare_plan_cache_hits_total counter
tare_plan_cache_hits_total 1
# TYPE tare_plan_cache_misses_total counter
tare_plan_cache_misses_total 3
# TYPE tare_plan_cache_overhead_bytes gauge
tare_plan_cache_overhead_bytes ` + overhead + `
# TYPE tare_plan_cache_plans_total counter
tare_plan_cache_plans_total{by="lexer"} 0
tare_plan_cache_plans_total{by="parser"} 3
# TYPE tare_plan_cache_statements_refused_total counter
tare_plan_cache_statements_refused_total{reason="incomplete"} 0
tare_plan_cache_statements_refused_total{reason="list"} 0
tare_plan_cache_statements_refused_total{reason="long"} 1
tare_plan_cache_statements_refused_total{reason="scope"} 0
`
	if got != want[1:] {
		t.Errorf("metrics:\n%s\nwant:\n%s", got, want[1:])
	}
}

// TestLargestPlans shows the plans of a cache, largest first.
func TestLargestPlans(t *testing.T) {
	p := newPlanner(t, 1<<20, "SELECT a FROM t WHERE id = 1", "DELETE FROM other.long_name_of_a_table, x USING x JOIN other.long_name_of_a_table")
	c := NewPlanCache(p, func() uint64 { return 2 })
	got := c.Largest(10)
	if got.Entries != 2 || got.Bytes != p.Bytes() || got.Capacity != 1<<20 || len(got.Largest) != 2 {
		t.Fatalf("plans: %+v", got)
	}
	if got.Overhead <= 0 || got.Overhead >= got.Bytes || got.Hits != 0 || got.Misses != 2 || got.Admitted != 2 ||
		got.Evicted[0] != (ReasonCount{"capacity", 0}) || got.Refused[0] != (ReasonCount{"large", 0}) {
		t.Errorf("the cache's counts: %+v", got)
	}
	large, small := got.Largest[0], got.Largest[1]
	if large.Type != "delete" || large.ReadOnly || large.Bytes < small.Bytes {
		t.Errorf("the largest: %+v", large)
	}
	if small.Type != "select" || !small.ReadOnly || !small.Parsed || small.Literals != 1 ||
		len(small.Tables) != 1 || small.Tables[0] != (Table{"shop", "t", "read"}) {
		t.Errorf("the smallest: %+v", small)
	}
	if n := len(c.Largest(1).Largest); n != 1 {
		t.Errorf("%d plans in detail, want 1", n)
	}
	tables := make(map[[16]byte][]string)
	for _, p := range p.Largest(10) {
		tables[p.Digest] = nil
	}
	tables[[16]byte{9}] = nil // has no plan
	c.AddTables(tables)
	var names []string
	for _, of := range tables {
		names = append(names, of...)
	}
	if slices.Sort(names); len(tables) != 3 || !slices.Equal(names, []string{"other.long_name_of_a_table", "shop.t", "shop.x"}) {
		t.Errorf("the tables are %v", tables)
	}
}

// TestReturner simulates two quiet periods and much activity: memory is returned once per period.
func TestReturner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var commands, freed atomic.Uint64
		r := NewReturner(time.Minute, commands.Load, slog.New(slog.DiscardHandler))
		r.free = func() { freed.Add(1) }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		expect := func(when string, want uint64) {
			t.Helper()
			synctest.Wait()
			if got := freed.Load(); got != want {
				t.Errorf("%s: returned %d times, want %d", when, got, want)
			}
		}
		for range 300 { // five busy minutes
			time.Sleep(time.Second)
			commands.Add(1)
		}
		expect("busy", 0)
		time.Sleep(59 * time.Second)
		expect("quiet for less than a spell", 0)
		time.Sleep(15 * time.Second)
		expect("quiet", 1)
		time.Sleep(time.Hour)
		expect("still quiet", 1)
		commands.Add(1)
		time.Sleep(2 * time.Minute)
		expect("quiet again", 2)
		if got, want := metricsOf(t, r), "tare_idle_memory_returns_total 2\n"; !strings.Contains(got, want) {
			t.Errorf("metrics:\n%s\nwant %s", got, want)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestReturnerReturns returns garbage to the system for real.
func TestReturnerReturns(t *testing.T) {
	r := NewReturner(time.Minute, func() uint64 { return 0 }, slog.New(slog.DiscardHandler))
	garbage := make([]byte, 64<<20)
	for i := 0; i < len(garbage); i += 4096 {
		garbage[i] = 1
	}
	r.giveBack()
	if got := r.returned.Load(); got < 60<<20 {
		t.Errorf("%d bytes returned, want the 64 MiB that were garbage", got)
	}
	t.Logf("returned %d bytes in %v", r.returned.Load(), time.Duration(r.nanos.Load()))
}
