//go:build e2e

package rowstream

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// mute has all connections that there are pass nothing any more, not even their end.
func (c *cutter) mute() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.muted.Store(true)
	c.muted = new(atomic.Bool)
}

// TestSilentPeer has the way between a copy and a service pass nothing any more without a word, as a
// firewall does that has forgotten a connection. Each side notices: the client goes on over a new
// connection, and the service ends the stream that nobody reads. It takes half a minute.
func TestSilentPeer(t *testing.T) {
	l := newMemoryLog(nil)
	l.updates(1, row("1", strings.Repeat("x", 1000)), row("2", "y"))
	l.pace = 100 * time.Millisecond
	s, addr := serve(t, ServiceOptions{Server: l})
	way := newCutter(t, addr)
	r := open(t, RemoteOptions{Addr: way.addr})
	changes := follow(t, r, FollowOptions{From: l.b.Upto, Tables: []*Table{must(r.Describe(t.Context(), "d", "t"))}, Patience: time.Minute})
	var b ChangeBatch
	for range 3 {
		if err := changes.Next(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	way.mute()
	begun := time.Now()
	for s.Stats().Follows == 0 || time.Since(begun) < time.Second {
		if err := changes.Next(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if err := changes.Next(t.Context(), &b); err != nil || len(b.Changes) != 1 {
			t.Fatal(len(b.Changes), err)
		}
	}
	if took := time.Since(begun); took > 2*(keepaliveTime+keepaliveTimeout) {
		t.Errorf("it took %v", took)
	}
	if st := s.Stats(); st.Following != 1 || st.Follows != 1 {
		t.Errorf("%+v", st)
	}
}
