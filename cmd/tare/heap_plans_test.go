package main

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testwait"
)

// heapOff is by how much what owners count may differ from the heap, in percent.
const heapOff = 0.5

const planClients = 4

// TestPlanCacheBytesAreTheHeap fills the plan cache of a tare serve with 32 MiB of distinct plans of various sizes, through
// a server that has none of their tables. As seen from outside, gauge and heap have grown by the same number of bytes, within heapOff percent.
func TestPlanCacheBytesAreTheHeap(t *testing.T) {
	if testing.Short() {
		t.Skip("sends 20,000 statements of some kilobytes")
	}
	server := testmysql.Start(t)
	s := startServe(t, "mysql://"+server.Addr, "--plan-cache-bytes", "36MiB", "--log-ring-bytes", "256KiB")
	cfg := server.Config("app")
	cfg.Addr = s.listen
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	db.SetMaxIdleConns(planClients)
	db.SetMaxOpenConns(planClients) // later ones would have their own buffers
	p := planSource{t: t, db: db}
	p.send(3000) // buffers, counters, samples and the ring of the log have what they hold
	before := s.heap(t)
	for filled := 0.0; filled < 32<<20; {
		if p.sent.Load() > 60_000 {
			t.Fatalf("%d statements made plans of %.0f bytes", p.sent.Load(), filled)
		}
		p.send(2000)
		filled = s.gauge(t, "plan_cache") - before.owners["plan_cache"]
	}
	testwait.UntilState(t, "the heap to have grown by the plans", func() (string, bool) {
		after := s.heap(t)
		grown, plans := after.live-before.live, after.owners["plan_cache"]-before.owners["plan_cache"]
		off := (plans - grown) / grown * 100
		state := fmt.Sprintf("%d statements: the heap grew by %.0f bytes, the gauge by %.0f: %+.2f %%, want within %g %%; before %v, after %v",
			p.sent.Load(), grown, plans, off, heapOff, before.owners, after.owners)
		if math.Abs(off) <= heapOff {
			t.Log(state)
		}
		return state, math.Abs(off) <= heapOff
	})
}

// A planSource sends statements with distinct plans: of 1 to 50 tables with names of 20 to 60 bytes.
type planSource struct {
	t    *testing.T
	db   *sql.DB
	sent atomic.Int64
}

// send sends n statements by all clients.
func (p *planSource) send(n int64) {
	p.t.Helper()
	until := p.sent.Load() + n
	var clients sync.WaitGroup
	for range planClients {
		clients.Go(func() {
			for i := p.sent.Add(1); i <= until; i = p.sent.Add(1) {
				if err := p.one(i); err != nil {
					p.t.Errorf("statement %d: %v", i, err)
					return
				}
			}
		})
	}
	testwait.Group(p.t, "the statements", &clients)
	p.sent.Store(until)
}

func (p *planSource) one(i int64) error {
	var text strings.Builder
	text.WriteString("SELECT 1 FROM ")
	for table := range 1 + i%50 {
		if table > 0 {
			text.WriteString(" JOIN ")
		}
		fmt.Fprintf(&text, "shop.orders_%d_%d%s", i, table, strings.Repeat("x", int((i+table)%40)))
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), testwait.Limit)
	defer cancel()
	if _, err := p.db.ExecContext(ctx, text.String()); err != nil && !isServerError(err) {
		return err
	}
	return nil
}

// gauge returns the bytes of one owner, without a collection.
func (s *served) gauge(t *testing.T, owner string) float64 {
	t.Helper()
	for _, m := range s.metrics(t)["tare_heap_bytes"].GetMetric() {
		if m.GetLabel()[0].GetValue() == owner {
			return m.GetGauge().GetValue()
		}
	}
	t.Fatalf("no owner %s", owner)
	return 0
}
