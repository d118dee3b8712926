package wire_test

import (
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// followers returns the ways to follow a server: directly, and through a service.
func followers(t *testing.T, d *binlog.Direct) map[string]binlog.Follower {
	t.Helper()
	_, addr := serve(t, wire.ServiceOptions{Server: d, Token: "rows"})
	return map[string]binlog.Follower{
		"direct": d, "remote": open(t, wire.RemoteOptions{Addr: addr, Token: "rows"}),
		"remote packed": open(t, wire.RemoteOptions{Addr: addr, Token: "rows", Compression: wire.Zstd}),
	}
}

// followMemory serves a log of memory and follows it.
func followMemory(t testing.TB, l rowstream.Server, o wire.ServiceOptions, c wire.Compression) (*wire.Service, binlog.Changes) {
	t.Helper()
	o.Server = l
	s, addr := serve(t, o)
	return s, followAt(t, addr, wire.RemoteOptions{Compression: c, Token: o.Token})
}

// followAt follows the table d.t of a service.
func followAt(t testing.TB, addr string, o wire.RemoteOptions) binlog.Changes {
	t.Helper()
	o.Addr = addr
	r := open(t, o)
	changes, err := r.Follow(t.Context(), binlog.FollowOptions{From: binlog.Position{File: "binlog.1", Offset: 4}, Tables: []*rowstream.Table{describe(t, r)}, Patience: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := changes.Close(); err != nil {
			t.Error(err)
		}
	})
	return changes
}
