package wire

import (
	"testing"

	"github.com/taredb/tare/binlog"
)

// followers returns the ways to follow a server: directly, and through a service.
func followers(t *testing.T, d *binlog.Direct) map[string]binlog.Follower {
	t.Helper()
	_, addr := serve(t, ServiceOptions{Server: d, Token: "rows"})
	return map[string]binlog.Follower{
		"direct": d, "remote": open(t, RemoteOptions{Addr: addr, Token: "rows"}),
		"remote packed": open(t, RemoteOptions{Addr: addr, Token: "rows", Compression: Zstd}),
	}
}
