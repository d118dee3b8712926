//go:build e2e

package e2e

import (
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testseed"
)

// frozenHold is the longest pause of clients in TestCutoverFrozen.
const frozenHold = time.Second

// Victims of TestCutoverFrozen: the copy is stopped by SIGSTOP, or its connections are silent.
const (
	stoppedCopy   victim = "SIGSTOP of the copy"
	silentGateway victim = "silent connections to the gateway"
	silentSource  victim = "silent connections to the source"
	silentTarget  victim = "silent connections to the target"
)

// A freezer freezes the copy or its connections, as a paused virtual machine or a network that loses all packets does.
type freezer struct {
	proxies map[victim]*testproxy.Proxy
}

// start starts the proxies, and returns their addresses.
func (f *freezer) start(t *testing.T, from, to, api string) (string, string, string) {
	t.Helper()
	at, err := url.Parse(api)
	must(t, err)
	f.proxies = map[victim]*testproxy.Proxy{
		silentGateway: testproxy.Start(t, at.Host), silentSource: testproxy.Start(t, from), silentTarget: testproxy.Start(t, to),
	}
	at.Host = f.proxies[silentGateway].Addr
	return f.proxies[silentSource].Addr, f.proxies[silentTarget].Addr, at.String()
}

func (f *freezer) freeze(d *drill) {
	if p := f.proxies[d.victim]; p != nil {
		p.Stall()
		return
	}
	if err := d.copy.Load().cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		d.Errorf("stop the copy: %v", err)
	}
}

func (f *freezer) thaw(d *drill) {
	if p := f.proxies[d.victim]; p != nil {
		p.Resume()
		return
	}
	must(d.T, d.copy.Load().cmd.Process.Signal(syscall.SIGCONT))
}

// TestCutoverFrozen is TestCutoverDrills with a copy that is frozen at each moment of the cutover, on both servers: clients
// write again before it thaws, without errors, because the gateway ends the pause. Afterwards the copy completes the cutover.
// The longest wait of a client is reported; --cutover-hold is one second.
func TestCutoverFrozen(t *testing.T) {
	for _, product := range []struct {
		name string
		opts []testmysql.Option
	}{{"MariaDB", nil}, {"MySQL", []testmysql.Option{testmysql.WithMySQL()}}} {
		t.Run(product.name, func(t *testing.T) {
			t.Parallel()
			opts := append(product.opts, testmysql.WithBinlog(),
				testmysql.WithSetup("create user if not exists copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier"))
			servers := []*testmysql.Server{testmysql.StartOrSkip(t, opts...), testmysql.StartOrSkip(t, opts...)}
			rnd := testseed.Rand(t)
			round := 0
			var longest time.Duration
			for _, m := range moments {
				for _, v := range []victim{stoppedCopy, silentGateway, silentSource, silentTarget} {
					t.Run(string(m)+"/"+string(v), func(t *testing.T) {
						d := &drill{
							T: t, moment: m, victim: v, delay: time.Duration(rnd.Int64N(int64(4 * time.Millisecond))),
							from: servers[round%2], to: servers[1-round%2], struck: make(chan struct{}), frozen: new(freezer),
						}
						d.run()
						longest = max(longest, d.journal.longest)
					})
					round++ // the other direction
				}
			}
			t.Logf("%d cutovers; the longest write of a client took %v, with a pause of at most %v", round, longest, frozenHold)
		})
	}
}
