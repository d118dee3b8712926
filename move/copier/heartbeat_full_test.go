//go:build e2e

package copier_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
)

// TestHeartbeatStall interrupts the network to one of the servers for a while: the lag becomes unknown, the
// status reports the wait, and the copy resumes afterwards. If the network does not return, the copy fails.
func TestHeartbeatStall(t *testing.T) {
	const patience = 20 * time.Second // the first stall ends long before, even on a busy machine
	for _, side := range []string{"source", "target"} {
		t.Run(side, func(t *testing.T) {
			p := newPair(t, "stall"+side)
			sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
			o := p.options("a")
			var proxy *testproxy.Proxy
			if side == "source" {
				proxy = testproxy.Start(t, p.from.Addr)
				cfg := root(p.from)
				cfg.Addr, cfg.Patience = proxy.Addr, patience
				o.From = copier.FromServer(cfg)
			} else {
				proxy = testproxy.Start(t, p.to.Addr)
				o.To.Addr = proxy.Addr
			}
			o.Patience = patience
			f := startFollowing(t, o)
			proxy.Stall()
			sqlExec(t, p.source, "INSERT INTO a VALUES (2)")
			f.status("the lag to be unknown or to grow", func(s *telemetry.Status) bool {
				return s.Follow != nil && (s.Follow.LagSeconds == nil || *s.Follow.LagSeconds > 2.5)
			})
			proxy.Resume()
			f.status("the lag to be small again", func(s *telemetry.Status) bool {
				return s.Follow != nil && s.Follow.LagSeconds != nil && *s.Follow.LagSeconds < 2
			})
			p.same(t, "a")
			proxy.Stall()
			sqlExec(t, p.source, "INSERT INTO a VALUES (3)")
			testwait.Group(t, "the copy to end with an error", &f.running)
			if f.err == nil || errors.Is(f.err, context.Canceled) {
				t.Errorf("the copy ended with %v, want an error about the network", f.err)
			}
			t.Logf("the error: %v", f.err)
		})
	}
}
