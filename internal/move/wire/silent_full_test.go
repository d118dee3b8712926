//go:build e2e

package wire_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestSilentPeer makes the connection between a copy and a service silent, as a firewall does that has
// dropped its state. Each side detects it: the client continues over a new connection, and the service ends
// the stream without a reader. It takes half a minute.
func TestSilentPeer(t *testing.T) {
	l := testrows.NewMemoryLog(nil)
	l.Updates(1, testrows.Row("1", strings.Repeat("x", 1000)), testrows.Row("2", "y"))
	l.Pace = 100 * time.Millisecond
	s, addr := serve(t, wire.ServiceOptions{Server: l})
	way := testproxy.Start(t, addr)
	r := open(t, wire.RemoteOptions{Addr: way.Addr})
	changes := testrows.Follow(t, r, binlog.FollowOptions{From: l.Changes.Upto, Tables: []*rowstream.Table{describe(t, r)}, Patience: time.Minute})
	var b binlog.ChangeBatch
	for range 3 {
		if err := changes.Next(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	way.Silence()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	for s.Stats().Follows == 0 {
		if err := changes.Next(ctx, &b); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if err := changes.Next(ctx, &b); err != nil || len(b.Changes) != 1 {
			t.Fatal(len(b.Changes), err)
		}
	}
	testwait.Equal(t, "the service to serve one stream, after another one", [2]int64{1, 1}, func() [2]int64 { return [2]int64{int64(s.Stats().Following), int64(s.Stats().Follows)} })
}
