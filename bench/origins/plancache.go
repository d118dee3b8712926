package main

import (
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/taredb/tare/bench/baseline/plancache"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/mysql/sqldigest"
)

const (
	planCapacity = 32 << 20 // as published
	insertBytes  = 2 << 20  // as published
	smallPlans   = 10_000   // statements of an ordinary workload
	largeInserts = 24       // more than fit into a cache that counts their rows
	repeats      = 6        // for benchstat
)

// A planCache is a cache of plans under comparison.
type planCache interface {
	// read plans a statement in a connection's buffer: it finds the plan in the cache, or creates it.
	read(wire []byte) error
	has(wire []byte) bool
	bytes() int64
}

// A variant creates a cache under comparison.
type variant struct {
	name string
	make func() (planCache, error)
}

func twin(name string, o plancache.Options) variant {
	return variant{name, func() (planCache, error) {
		o.Capacity = planCapacity
		c, err := plancache.New(o)
		return twinCache{c}, err
	}}
}

// planVariants returns the steps from the baseline to the product.
func planVariants() []variant {
	return []variant{
		twin("as written first", plancache.Options{}),
		twin("+ size classes", plancache.Options{SizeClasses: true}),
		twin("+ detached names", plancache.Options{SizeClasses: true, Detach: true}),
		twin("+ hashed keys", plancache.Options{SizeClasses: true, Detach: true, HashKeys: true}),
		{"tare", newTarePlans},
	}
}

// A twinCache reads a statement like most servers: it copies it to a string.
type twinCache struct{ *plancache.Cache }

func (c twinCache) read(wire []byte) error {
	_, err := c.Plan("shop", string(wire))
	return err
}
func (c twinCache) has(wire []byte) bool { return c.Has("shop", string(wire)) }
func (c twinCache) bytes() int64         { return c.Bytes() }

// tarePlans reads statements like the gateway: those of more than a megabyte are digested in pieces.
type tarePlans struct {
	planner  *sqlplan.Planner
	digester sqldigest.Digester
	scope    sqlplan.Scope
}

func newTarePlans() (planCache, error) {
	p, err := sqlplan.New(sqlplan.Options{CacheBytes: planCapacity})
	if err != nil {
		return nil, err
	}
	return &tarePlans{planner: p, scope: p.ScopeOf([]byte("shop"), []byte("app"), 0)}, nil
}

func (c *tarePlans) digest(wire []byte) sqldigest.Digest {
	if len(wire) <= 1<<20 {
		return c.digester.Digest(wire, 0)
	}
	c.digester.Reset(0)
	for rest := wire; len(rest) > 0; {
		n := min(len(rest), 64<<10)
		_, _ = c.digester.Write(rest[:n])
		rest = rest[n:]
	}
	return c.digester.Sum()
}

func (c *tarePlans) read(wire []byte) error {
	d := c.digest(wire)
	if c.planner.Get(d, c.scope) == nil {
		c.planner.Plan(sqlplan.Statement{
			SQL: c.digester.Text(), Complete: true, Text: c.digester.Text(), Digest: d,
			Scope: c.scope, Schema: []byte("shop"), User: []byte("app"),
		})
	}
	c.digester.Reset(0)
	return nil
}

func (c *tarePlans) has(wire []byte) bool { return c.planner.Get(c.digest(wire), c.scope) != nil }
func (c *tarePlans) bytes() int64         { return c.planner.Bytes() }

// smallStatement appends the n-th statement of an ordinary workload.
func smallStatement(dst []byte, n int) []byte {
	switch n % 4 {
	case 0:
		return fmt.Appendf(dst, "SELECT c FROM sbtest%d WHERE id = %d", n, n)
	case 1:
		return fmt.Appendf(dst, "UPDATE stock_%d SET quantity = quantity - 1, note = 'sold' WHERE item = %d AND warehouse = 7", n, n)
	case 2:
		return fmt.Appendf(dst, "SELECT o.id, o.total, c.name, c.city FROM orders_%d o JOIN customers c ON c.id = o.customer WHERE o.state IN (1, 2, 3) ORDER BY o.id LIMIT 10", n)
	default:
		return fmt.Appendf(dst, "INSERT INTO history_%d (customer, at, data) VALUES (%d, now(), 'paid')", n, n)
	}
}

// largeInsert appends the n-th statement of an import: no two have the same rows.
func largeInsert(dst []byte, n int) []byte {
	dst = fmt.Appendf(dst, "INSERT INTO import_%d (id, payload) VALUES ", n%5)
	for i := 0; len(dst) < insertBytes; i++ {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = fmt.Appendf(dst, "(%d,'%0*d')", n*1_000_000+i, 40+(n+i)%41, i)
	}
	return dst
}

func heapInUse() int64 {
	for range 3 {
		runtime.GC()
	}
	return readMetric("/memory/classes/heap/objects:bytes")
}

func readMetric(name string) int64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// A reading is the accounted size of a cache and the growth of the heap.
type reading struct{ accounted, heap int64 }

// margin returns the error of the accounted size, in percent of it.
func (r reading) margin() float64 {
	return float64(max(r.heap-r.accounted, r.accounted-r.heap)) / float64(r.accounted) * 100
}

// weighPlans fills a cache with an ordinary workload and then with large INSERTs.
func weighPlans(v variant, small, large int) (reading, error) {
	wire := make([]byte, 0, insertBytes+1024)
	idle := heapInUse()
	c, err := v.make()
	if err != nil {
		return reading{}, fmt.Errorf("make %s: %w", v.name, err)
	}
	for i := range small {
		if err := c.read(smallStatement(wire[:0], i)); err != nil {
			return reading{}, fmt.Errorf("%s: %w", v.name, err)
		}
	}
	for i := range large {
		if err := c.read(largeInsert(wire[:0], i)); err != nil {
			return reading{}, fmt.Errorf("%s: %w", v.name, err)
		}
	}
	r := reading{c.bytes(), heapInUse() - idle}
	runtime.KeepAlive(c)
	runtime.KeepAlive(wire)
	return r, nil
}

// measurePlanCache repeats vitessio/vitess#8804.
func measurePlanCache(old, new, out io.Writer, docs string) error {
	variants := planVariants()
	first, last := variants[0], variants[len(variants)-1]
	for _, v := range []variant{first, last} { // warms up parser and pools
		if _, err := weighPlans(v, 2000, 1); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "accounted against real bytes, %d statements, then %d INSERTs of %d MiB, capacity %d MiB:\n\n", smallPlans, largeInserts, insertBytes>>20, planCapacity>>20)
	fmt.Fprintf(out, "%-18s %14s %14s %9s   %14s %14s %9s\n", "", "accounted", "heap", "off", "accounted", "heap", "off")
	for _, v := range variants {
		var readings [2]reading
		for i, large := range []int{0, largeInserts} {
			var err error
			if readings[i], err = weighPlans(v, smallPlans, large); err != nil {
				return err
			}
		}
		fmt.Fprintf(out, "%-18s %14d %14d %8.1f%%   %14d %14d %8.1f%%\n", v.name,
			readings[0].accounted, readings[0].heap, readings[0].margin(),
			readings[1].accounted, readings[1].heap, readings[1].margin())
	}
	fmt.Fprintln(out)
	for i, v := range []variant{first, last} {
		w := []io.Writer{old, new}[i]
		if err := planCacheLines(w, v); err != nil {
			return err
		}
	}
	return drawImport(old, new, filepath.Join(docs, "origins-plancache.svg"))
}

// planCacheLines writes the benchmark lines of one side.
func planCacheLines(w io.Writer, v variant) error {
	for range repeats {
		r, err := weighPlans(v, smallPlans, 0)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "BenchmarkPlanCache/plans=small 1 %d accounted-B %d heap-B %.3f margin-%%\n", r.accounted, r.heap, r.margin())
	}
	c, err := v.make()
	if err != nil {
		return fmt.Errorf("make %s: %w", v.name, err)
	}
	wire := largeInsert(nil, 1)
	text := string(wire) // as in a server that has read the statement
	lookup := func() { c.has(wire) }
	if t, ok := c.(twinCache); ok {
		lookup = func() { t.Has("shop", text) }
	}
	lookup()
	for range repeats {
		r := testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				lookup()
			}
		})
		fmt.Fprintf(w, "BenchmarkPlanCache/key=2MiB %s\t%s\n", r.String(), r.MemString())
	}
	return nil
}
