package pool

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/testseed"
)

// A user is a session of the tests.
type user struct {
	Waiter[string, int]
	likes   int
	granted int
}

func (u *user) Fits(c int) bool { return c == u.likes }
func (u *user) Granted()        { u.granted++ }

func (u *user) SendBehind(int) bool { return false }

func newUser(class string) *user {
	u := &user{}
	u.Owner, u.Class = u, class
	return u
}

func TestPool(t *testing.T) {
	now := time.Unix(1000, 0)
	p := &Pool[string, int]{Limits: Limits{Max: 2, Min: 1, IdleAge: time.Minute, Lifetime: time.Hour}}
	a, b, c, d := newUser("x"), newUser("x"), newUser("x"), newUser("y")
	for i, u := range []*user{a, b} {
		if p.Ask(&u.Waiter); u.Grant != GrantOpen {
			t.Fatalf("user %d: grant %d", i, u.Grant)
		}
		u.Conn = p.Opened("x", i, now)
	}
	p.Ask(&c.Waiter)
	p.Ask(&d.Waiter)
	if c.Grant != GrantNone || d.Grant != GrantNone || p.Queued.Load() != 2 {
		t.Fatal("more connections than the limit")
	}
	if !p.Put(a.Conn, now) || c.Grant != GrantUse || c.Conn.Value != 0 || c.granted != 1 || d.Grant != GrantNone {
		t.Fatal("the first in the queue did not get the connection")
	}
	if !p.Put(b.Conn, now) || d.Grant != GrantReplace || d.Conn.Value != 1 {
		t.Fatal("one of another class did not get the room of the connection")
	}
	p.Ask(&a.Waiter)
	p.Failed() // d could not open
	if a.Grant != GrantOpen {
		t.Fatal("the room of a connection that was not opened was lost")
	}
	a.Conn = p.Opened("x", 3, now)
	p.Put(c.Conn, now)
	p.Put(a.Conn, now.Add(time.Second))
	b.likes = 0
	if p.Ask(&b.Waiter); b.Grant != GrantUse || b.Conn.Value != 0 {
		t.Fatalf("got %d: the connection in the right state is preferred", b.Conn.Value)
	}
	p.Put(b.Conn, now.Add(time.Second))
	if p.Ask(&d.Waiter); d.Grant != GrantReplace || d.Conn.Value != 3 {
		t.Fatal("the connection that was idle longest was not replaced")
	}
	d.Conn = p.Opened("y", 4, now)
	p.Ask(&a.Waiter)
	p.Ask(&c.Waiter)
	if a.Grant != GrantUse || c.Grant != GrantNone || !p.Cancel(&c.Waiter) || p.Cancel(&c.Waiter) {
		t.Fatal("Cancel")
	}
	if p.Put(a.Conn, now.Add(time.Hour)) {
		t.Fatal("a connection past its lifetime was kept")
	}
	p.Drop(a.Conn)
	p.Put(d.Conn, now)
	var closed []int
	gone := func(v int) { closed = append(closed, v) }
	never := func(int) bool { return false }
	p.Expire(now.Add(2*time.Minute), never, gone)
	if len(closed) != 0 {
		t.Fatal("the minimum was closed")
	}
	p.Expire(now, func(v int) bool { return v == 4 }, gone)
	if len(closed) != 1 || p.Open.Load() != 0 || p.Idle.Load() != 0 {
		t.Fatalf("a dead connection was kept: closed %v, open %d", closed, p.Open.Load())
	}
}

// TestPoolRandomly checks with random sequences that a pool never has more connections than its limit, serves everyone, and counts.
func TestPoolRandomly(t *testing.T) {
	for range 10 {
		rnd := testseed.Rand(t)
		now := time.Unix(1000, 0)
		p := &Pool[string, int]{Limits: Limits{Max: 1 + rnd.IntN(4)}}
		users := make([]*user, 12)
		state := make([]string, len(users)) // "", waits, has
		for i := range users {
			users[i] = newUser(string(rune('a' + i%3)))
		}
		for range 20_000 {
			i := rnd.IntN(len(users))
			u := users[i]
			switch {
			case state[i] == "":
				p.Ask(&u.Waiter)
				state[i] = "waits"
			case state[i] == "has":
				act(p, u, rnd, now)
				state[i] = ""
			case u.Grant == GrantNone && rnd.IntN(20) == 0:
				p.Cancel(&u.Waiter)
				state[i] = ""
			}
			for k, u := range users {
				if state[k] != "waits" || u.Grant == GrantNone {
					continue
				}
				if u.Grant != GrantUse {
					u.Conn = p.Opened(u.Class, k, now)
				}
				if u.Conn.Class != u.Class {
					t.Fatalf("a connection of class %s for one of %s", u.Conn.Class, u.Class)
				}
				state[k] = "has"
			}
			has, waits := 0, 0
			for k := range users {
				switch state[k] {
				case "has":
					has++
				case "waits":
					waits++
				}
			}
			if open := int(p.Open.Load()); open > p.Max || has+len(p.idle) != open || waits != int(p.Queued.Load()) || waits > 0 && has < p.Max {
				t.Fatalf("%d open of %d, %d lent, %d idle, %d wait, %d counted", open, p.Max, has, len(p.idle), waits, p.Queued.Load())
			}
		}
	}
}

func act(p *Pool[string, int], u *user, rnd *rand.Rand, now time.Time) {
	if rnd.IntN(10) == 0 {
		p.Drop(u.Conn)
		return
	}
	p.Put(u.Conn, now)
}

func TestAllocs(t *testing.T) {
	now := time.Unix(1000, 0)
	p := &Pool[string, int]{Limits: Limits{Max: 1}}
	a, b := newUser("x"), newUser("x")
	p.Ask(&a.Waiter)
	a.Conn = p.Opened("x", 1, now)
	alloctest.Run(t, []alloctest.Case{{Name: "a connection goes from one session to the next", Op: func() error {
		p.Ask(&b.Waiter)
		p.Put(a.Conn, now)
		p.Ask(&a.Waiter)
		p.Put(b.Conn, now)
		p.Put(a.Conn, now)
		p.Ask(&a.Waiter)
		if a.Grant != GrantUse || b.Grant != GrantUse {
			return errors.New("no connection")
		}
		return nil
	}}})
}
