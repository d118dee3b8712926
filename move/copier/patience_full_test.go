//go:build e2e

package copier_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
)

// TestPatience interrupts the network to one of the servers for good, in each phase of a copy: the run ends with an error that gives the
// address, or is complete where it needs that server no more.
func TestPatience(t *testing.T) {
	const patience = 3 * time.Second
	phases := map[string]telemetry.EventKind{
		"connection": "", "snapshot": telemetry.EventSnapshot, "rows": "", "indexes": telemetry.EventIndexes,
		"following": telemetry.EventFollow, "verification": telemetry.EventVerified,
	}
	for phase, kind := range phases {
		for _, side := range []string{"source", "target"} {
			t.Run(phase+"/"+side, func(t *testing.T) {
				p := newPair(t, "patience"+phase+side)
				sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, n INT, c MEDIUMTEXT, KEY n (n))")
				for i := range 20 {
					sqlExec(t, p.source, fmt.Sprintf("INSERT INTO a SELECT seq, seq, REPEAT('x', 20000) FROM (WITH RECURSIVE s AS (SELECT %d AS seq UNION ALL SELECT seq + 1 FROM s WHERE seq < %d) SELECT seq FROM s) AS s", 100*i, 100*i+99))
				}
				o := p.options("a")
				from := root(p.from)
				from.Patience, o.Patience, o.ChunkBytes = patience, patience, 256<<10
				o.Follow, o.Verify = kind == telemetry.EventFollow || phase == "verification", phase == "verification"
				upstream := p.from.Addr
				if side == "target" {
					upstream = p.to.Addr
				}
				proxy := testproxy.Start(t, upstream)
				if side == "source" {
					from.Addr = proxy.Addr
				} else {
					o.To.Addr = proxy.Addr
				}
				o.From = copier.FromServer(from)
				var once sync.Once
				o.Observe = func(e telemetry.Event) {
					if e.Kind == kind {
						once.Do(proxy.Stall)
					}
				}
				switch phase {
				case "connection":
					proxy.Stall()
				case "rows": // of 40 MB; events are later than the reading
					proxy.StallAfter(10 << 20)
				}
				var err error
				var running sync.WaitGroup
				running.Go(func() { _, err = copier.Run(t.Context(), o) })
				testwait.Group(t, "the copy to end", &running)
				if phase == "indexes" && side == "source" {
					if err != nil {
						t.Fatal(err)
					}
					proxy.Resume()
					p.same(t, "a")
				} else if err == nil || !strings.Contains(err.Error(), proxy.Addr) {
					t.Fatalf("got %v, want an error about %s", err, proxy.Addr)
				}
			})
		}
	}
}
