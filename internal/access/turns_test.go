package access

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/taredb/tare/internal/testseed"
)

// TestTurns has waiters come, go and get their turns at random: one has the turn at a time, a higher trust comes first, and each waits for no longer than
// the bound.
func TestTurns(t *testing.T) {
	rnd := testseed.Rand(t)
	type waits struct {
		*waiter
		older, newer, before int // before: turns of the same trust since it came
	}
	var turns turns
	var all []*waits
	served := 0
	if turns.enter(trustFresh) != nil {
		t.Fatal("the first one waits")
	}
	for range 20000 {
		switch n := rnd.IntN(20); {
		case n < 10 && len(all) < 50:
			trust := trust(rnd.IntN(int(trusts)))
			w := &waits{waiter: turns.enter(trust)}
			if w.waiter == nil {
				break
			}
			for _, other := range all {
				if other.trust == trust {
					w.older++
					other.newer++
				}
			}
			all = append(all, w)
		case n == 10 && len(all) > 0: // it gives up
			i := rnd.IntN(len(all))
			if !turns.remove(all[i].waiter) || turns.remove(all[i].waiter) {
				t.Fatal("a waiter is removed once")
			}
			all = slices.Delete(all, i, i+1)
		default:
			turns.next()
			var got []*waits
			highest := trusts
			for _, w := range all {
				highest = min(highest, w.trust)
				select {
				case <-w.ready:
					got = append(got, w)
				default:
				}
			}
			if len(all) == 0 {
				if turns.running || turns.enter(trustFresh) != nil {
					t.Fatal("no one has the turn, and it is not given")
				}
				break
			}
			if len(got) != 1 || got[0].trust != highest || !turns.running {
				t.Fatalf("%d of %d got the turn", len(got), len(all))
			}
			w := got[0]
			all = slices.DeleteFunc(all, func(other *waits) bool { return other == w })
			for _, other := range all {
				if other.trust == w.trust {
					other.before++
				}
			}
			if most := 2*min(w.older, w.newer) + 1; w.before > most {
				t.Fatalf("%d had their turn before one with %d before it and %d behind it: at most %d", w.before, w.older, w.newer, most)
			}
			served++
		}
	}
	if served < 5000 {
		t.Errorf("%d turns", served)
	}
}

// TestFirstLogin has many networks send wrong passwords at once: the first right login from another one is checked early.
func TestFirstLogin(t *testing.T) {
	const attackers = 300
	synctest.Test(t, func(t *testing.T) {
		var l logins
		l.init(slog.New(slog.DiscardHandler))
		var checks []string
		send := func(ctx context.Context, addr string, right bool) {
			go l.check(ctx, address(t, addr), func() bool {
				checks = append(checks, addr) // one at a time
				return right
			})
			synctest.Wait()
		}
		// behind has logins wait behind a check that runs, and returns the order of their checks.
		behind := func(logins func()) []string {
			end := make(chan struct{})
			go l.check(t.Context(), address(t, "198.51.100.1"), func() bool { <-end; return true })
			synctest.Wait()
			checks = nil
			logins()
			close(end)
			synctest.Wait()
			return checks
		}
		flood := func() {
			for i := range attackers {
				send(t.Context(), fmt.Sprintf("10.%d.%d.1", i/250, i%250), false)
			}
		}
		want := func(step, addr string, at, all int, checks []string) {
			t.Helper()
			if len(checks) != all || checks[at] != addr {
				t.Errorf("%s: check %d of %d is not of %s: %q", step, at, len(checks), addr, checks[:min(4, len(checks))])
			}
		}
		want("after networks that are new too", "192.0.2.1", 0, attackers+1, behind(func() {
			flood()
			send(t.Context(), "192.0.2.1", true)
		}))
		want("before and after networks with wrong ones", "203.0.113.1", 0, attackers+2, behind(func() {
			flood()
			send(t.Context(), "203.0.113.1", true)
			send(t.Context(), "10.0.0.77", false)
		}))
		want("an address with a right one before, in a network with a wrong one", "192.0.2.1", 0, 3, behind(func() {
			send(t.Context(), "192.0.2.200", false)
			send(t.Context(), "100.64.0.1", false)
			send(t.Context(), "192.0.2.1", true)
		}))
		want("after one that has given up", "100.64.2.1", 0, 1, behind(func() {
			ctx, cancel := context.WithCancel(t.Context())
			send(ctx, "100.64.1.1", false)
			cancel()
			synctest.Wait()
			send(t.Context(), "100.64.2.1", true)
		}))
	})
}

// TestTrustIsBounded forgets addresses and networks when there are too many.
func TestTrustIsBounded(t *testing.T) {
	var l logins
	l.init(slog.New(slog.DiscardHandler))
	for i := range 2 * maxClients {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1})
		l.record(a, true)
		l.record(a, false)
		if l.trust(a) != trustKnown || l.trust(a.Next()) != trustSuspect {
			t.Fatalf("%s is forgotten at once", a)
		}
	}
	if len(l.known) != maxClients || len(l.suspect) != maxClients {
		t.Errorf("%d addresses and %d networks are remembered", len(l.known), len(l.suspect))
	}
	if a, b := netip.MustParseAddr("2001:db8:1:2::"), netip.MustParseAddr("2001:db8:1:ffff::"); network(a) != network(b) || network(a) == network(netip.MustParseAddr("2001:db8:2:2::")) {
		t.Error("networks of IPv6 are not /48")
	}
	if network(netip.MustParseAddr("::ffff:192.0.2.1")) != network(netip.MustParseAddr("192.0.2.9")) {
		t.Error("an address of IPv4 in IPv6 has another network")
	}
}
