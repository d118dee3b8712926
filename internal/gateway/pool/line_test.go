package pool

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/testseed"
)

// A server is a connection of the tests: it executes what it was sent, in that order.
type server struct {
	sent  []*reader
	slow  bool
	state int
}

// A reader is a session of the tests whose statements may be sent behind others.
type reader struct {
	Waiter[string, *server]
	number  int
	state   int
	does    string // "", "waits", "has"
	since   int    // completions before it has waited
	granted int
}

func (r *reader) Fits(c *server) bool { return c.state == r.state }
func (r *reader) Granted()            { r.granted++ }

func (r *reader) SendBehind(c *server) bool {
	if c.state != r.state || c.slow {
		return false
	}
	c.sent = append(c.sent, r)
	return true
}

func newReader(number int, class string) *reader {
	r := &reader{number: number}
	r.Owner, r.Class = r, class
	return r
}

// A lineWorld is a pool with sessions that behave at random.
type lineWorld struct {
	t    *testing.T
	rnd  *rand.Rand
	now  time.Time
	p    *Pool[string, *server]
	all  []*reader
	done int // statements
}

// TestLines checks with random sequences that each session reads the response to its own statement, that no connection has more in
// flight than Depth, that statements which may not be behind others are alone, and that everyone is served.
func TestLines(t *testing.T) {
	for range 10 {
		w := &lineWorld{t: t, rnd: testseed.Rand(t), now: time.Unix(1000, 0)}
		w.p = &Pool[string, *server]{Limits: Limits{Max: 1 + w.rnd.IntN(4), Depth: 1 + w.rnd.IntN(5), Lifetime: time.Hour}, Brisk: func(s *server) bool { return !s.slow }}
		for i := range 24 {
			w.all = append(w.all, newReader(i, []string{"a", "a", "a", "b"}[i%4]))
		}
		for range 20_000 {
			w.step(w.all[w.rnd.IntN(len(w.all))])
			w.check()
		}
		behind := w.p.Stats.Behind.Load()
		if w.p.Depth > 1 && behind == 0 {
			t.Error("no statement was sent behind another")
		}
		for range 10_000 { // everyone is served in the end
			for _, r := range w.all {
				if r.does == "has" {
					w.finish(r)
					w.check()
				}
			}
		}
		for _, r := range w.all {
			if r.does != "" {
				t.Errorf("session %d %s", r.number, r.does)
			}
		}
	}
}

func (w *lineWorld) step(r *reader) {
	switch {
	case r.does == "":
		if w.rnd.IntN(8) == 0 {
			r.state = 1 - r.state
		}
		r.Alone = w.rnd.IntN(6) == 0
		r.does, r.since = "waits", w.done
		w.p.Ask(&r.Waiter)
	case r.does == "has" && w.rnd.IntN(3) == 0:
		r.Conn.Value.slow = w.rnd.IntN(4) == 0
	case r.does == "has":
		w.finish(r)
	case w.rnd.IntN(40) > 0:
	case r.Grant == GrantNone:
		w.p.Cancel(&r.Waiter)
		r.does = ""
	case r.Grant == GrantBehind:
		w.p.Leave(&r.Waiter)
		if r.Grant != GrantLost {
			w.t.Fatalf("grant %d after Leave", r.Grant)
		}
		r.does = ""
	}
	w.p.Stats.Queued.Load()
	w.now = w.now.Add(time.Second)
}

// finish ends the statement of a session that has a connection.
func (w *lineWorld) finish(r *reader) {
	w.done++
	c := r.Conn
	c.Value.slow = false
	if len(c.Value.sent) == 0 || c.Value.sent[0] != r {
		w.t.Fatalf("session %d reads the response to another's statement", r.number)
	}
	c.Value.sent = c.Value.sent[1:]
	r.does, r.Conn = "", nil
	switch w.rnd.IntN(20) {
	case 0:
		w.p.Drop(c)
		return
	case 1:
		n := c.InLine()
		if lost := w.p.Disband(c); lost != n || c.InLine() != 0 {
			w.t.Fatalf("%d of %d were told", lost, n)
		}
		c.Value.sent = nil
	}
	if w.p.Next(c, w.now) != nil {
		return
	}
	if !w.p.Put(c, w.now) {
		w.p.Drop(c)
	}
}

// check has the sessions act on what they were granted, and compares.
func (w *lineWorld) check() {
	for changed := true; changed; {
		changed = false
		for _, r := range w.all {
			if r.does != "waits" || r.Grant == GrantNone || r.Grant == GrantBehind {
				continue
			}
			changed = true
			switch r.Grant {
			case GrantLost:
				if !r.Alone {
					w.t.Fatal("a statement without a response would be sent behind others again")
				}
				w.p.Ask(&r.Waiter)
				continue
			case GrantOpen, GrantReplace:
				r.Conn = w.p.Opened(r.Class, &server{}, w.now)
			}
			r.does = "has"
			s := r.Conn.Value
			if len(s.sent) == 0 || s.sent[0] != r { // not sent yet
				if len(s.sent) > 0 && !r.Conn.line.doomed {
					w.t.Fatal("a connection with statements in flight was lent")
				}
				s.state = r.state
				s.sent = []*reader{r}
				if !r.Alone {
					w.p.Lead(r.Conn)
				}
			}
			if r.Conn.Class != r.Class || s.state != r.state {
				w.t.Fatal("a connection of another class or state")
			}
		}
	}
	has, waits, uncovered := 0, 0, 0
	for _, r := range w.all {
		switch {
		case r.does == "has":
			has++
			if n := 1 + r.Conn.InLine(); n > max(w.p.Depth, 1) || r.Alone && w.p.Depth > 1 && n > 1 {
				w.t.Fatalf("%d in flight of %d, alone: %v", n, w.p.Depth, r.Alone)
			}
		case r.does == "waits" && r.Grant == GrantNone:
			waits++
			if r.reserved == nil {
				uncovered++
			} else if r.reserved.line.reserved != &r.Waiter || !slices.Contains(w.p.lines, r.reserved) {
				w.t.Fatal("a reservation that the connection does not know")
			}
			if w.done-r.since > 20*w.p.Max*max(w.p.Depth, 1)*len(w.all) {
				w.t.Fatalf("session %d was not served in %d statements", r.number, w.done-r.since)
			}
		}
	}
	if open := int(w.p.Open.Load()); open > w.p.Max || has+len(w.p.idle) != open || waits != int(w.p.Queued.Load()) || uncovered != w.p.uncovered || waits > 0 && has < w.p.Max {
		w.t.Fatalf("%d open of %d, %d lent, %d idle, %d wait, %d counted, %d of %d without reservation",
			open, w.p.Max, has, len(w.p.idle), waits, w.p.Queued.Load(), w.p.uncovered, uncovered)
	}
}

// TestReserved: a session that needs a connection alone gets one although others' statements keep coming.
func TestReserved(t *testing.T) {
	p := &Pool[string, *server]{Limits: Limits{Max: 1, Depth: 3}, Brisk: func(s *server) bool { return !s.slow }}
	now := time.Unix(1000, 0)
	var all []*reader
	for i := range 6 {
		all = append(all, newReader(i, "a"))
	}
	holder, alone := all[0], all[3]
	p.Ask(&holder.Waiter)
	c := p.Opened("a", &server{sent: []*reader{holder}}, now)
	p.Lead(c)
	for _, r := range all[1:] {
		r.Alone = r == alone
		p.Ask(&r.Waiter)
	}
	if c.InLine() != 2 || all[1].Grant != GrantBehind || all[4].Grant != GrantNone {
		t.Fatalf("%d behind the first", c.InLine())
	}
	for want := range all[1:3] {
		if w := p.Next(c, now); w != &all[want+1].Waiter || w.Grant != GrantUse {
			t.Fatalf("%d is not next", want+1)
		}
	}
	if p.Next(c, now) != nil || !p.Put(c, now) || alone.Grant != GrantUse || alone.granted != 1 || all[4].Grant != GrantNone {
		t.Fatal("the connection is not for the session that waited for it")
	}
}

// TestLineAllocs: statements that are sent behind others do not allocate.
func TestLineAllocs(t *testing.T) {
	now := time.Unix(1000, 0)
	p := &Pool[string, *server]{Limits: Limits{Max: 1, Depth: 2}, Brisk: func(*server) bool { return true }}
	a, b := newReader(0, "x"), newReader(1, "x")
	p.Ask(&a.Waiter)
	c := p.Opened("x", &server{sent: make([]*reader, 0, 1)}, now)
	alloctest.Run(t, []alloctest.Case{{Name: "a statement behind another", Op: func() error {
		p.Lead(c)
		c.Value.sent = c.Value.sent[:0]
		p.Ask(&b.Waiter)
		if b.Grant != GrantBehind || p.Next(c, now) != &b.Waiter || p.Next(c, now) != nil {
			return errors.New("not behind")
		}
		p.Put(c, now)
		p.Ask(&a.Waiter)
		if a.Grant != GrantUse {
			return errors.New("no connection")
		}
		return nil
	}}})
}
