package pool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/gateway/pool"
)

func newLearned(busy ...string) *pool.Learned {
	return &pool.Learned{Life: time.Hour, InUse: func(user string) bool { return slices.Contains(busy, user) }}
}

// TestLearnedLife requires that a password admits clients for Life after a login by it, with connections of the kind of that login.
func TestLearnedLife(t *testing.T) {
	l, start := newLearned("busy"), time.Unix(1e9, 0)
	a, added := l.Learn("app", "secret", false, true, start)
	if !added || a.Password() != "secret" {
		t.Fatalf("%v, %v", a, added)
	}
	admits := func(secure bool, after time.Duration) bool {
		return l.Admitting("app", secure, start.Add(after)) != nil
	}
	if !admits(true, time.Hour-1) || admits(true, time.Hour) || admits(false, 0) {
		t.Error("want an hour, with TLS")
	}
	l.Prove(a, false, start.Add(30*time.Minute))
	if !admits(false, time.Hour) || admits(true, time.Hour) {
		t.Error("want another hour without TLS, not with TLS")
	}
	if b, again := l.Learn("app", "secret", false, true, start.Add(time.Hour)); b != a || again || !admits(true, 2*time.Hour-1) {
		t.Error("the same password is another account")
	}
	l.Doubt(a, true)
	if admits(true, time.Hour) || !admits(false, time.Hour) {
		t.Error("want a doubt about TLS only")
	}
	busy, _ := l.Learn("busy", "secret", false, true, start)
	l.Expire(start.Add(90*time.Minute - 1))
	if a.Forgotten() {
		t.Error("an account is forgotten before its time")
	}
	l.Expire(start.Add(2 * time.Hour))
	if !a.Forgotten() || l.Of("app") != nil || busy.Forgotten() {
		t.Error("want the account without sessions forgotten")
	}
	l.Prove(busy, true, start.Add(2*time.Hour))
	l.DoubtAll()
	if l.Of("busy") != busy || l.Admitting("busy", true, start.Add(2*time.Hour)) != nil {
		t.Error("after DoubtAll an account is to serve its sessions alone")
	}
	l.Clear()
	if !busy.Forgotten() || l.Len() != 0 {
		t.Error("Clear leaves an account")
	}
}

// TestLearnedReplaced requires another password to take the place of the first, and a forgotten account to stay forgotten.
func TestLearnedReplaced(t *testing.T) {
	l, now := newLearned(), time.Unix(1e9, 0)
	a, _ := l.Learn("app", "old", false, true, now)
	b, _ := l.Learn("app", "new", false, true, now)
	if !a.Forgotten() || b.Forgotten() || l.Of("app") != b {
		t.Error("want the new account alone")
	}
	l.Forget(a, pool.Refused) // a late refusal
	if l.Of("app") != b || l.Reasons()[pool.Refused] != 0 || l.Reasons()[pool.Replaced] != 1 {
		t.Errorf("a refusal of the old password concerns the new one: %v", l.Reasons())
	}
	l.Forget(b, pool.Refused)
	if l.Of("app") != nil || l.Reasons()[pool.Refused] != 1 {
		t.Errorf("%v", l.Reasons())
	}
	var none *pool.Learned
	if none.Of("app") != nil || none.Admitting("app", true, now) != nil {
		t.Error("nothing learned admits clients")
	}
}

// TestLearnedTwo accepts two passwords in turn: the one accepted last admits clients, and the other takes its place if it is refused.
func TestLearnedTwo(t *testing.T) {
	l, now := newLearned(), time.Unix(1e9, 0)
	learn := func(password string) *pool.Account {
		a, _ := l.Learn("app", password, false, true, now)
		if got := l.Admitting("app", true, now); got != a || got.Password() != password {
			t.Fatalf("%v admits clients, want the account with password %s", got, password)
		}
		return a
	}
	learn("one")
	two := learn("two")
	one := learn("one")
	if learn("two") != two || learn("one") != one || one.Forgotten() || two.Forgotten() || l.Len() != 1 {
		t.Error("one is forgotten for the other")
	}
	if n := l.Reasons(); n[pool.Replaced] != 1 {
		t.Errorf("forgotten: %v", n)
	}
	l.Forget(one, pool.Refused)
	if l.Of("app") != two || l.Admitting("app", true, now) != nil || !one.Forgotten() {
		t.Error("want the other password, which admits no clients before the server accepts it again")
	}
	learn("one")
	learn("two")
	three := learn("three")
	if !two.Forgotten() || l.Of("app") != three {
		t.Error("want the third password alone")
	}
	l.Forget(three, pool.Refused)
	if l.Of("app") != nil {
		t.Error("a password is back that the server has accepted before another one only")
	}
	l.Learn("app", "one", false, true, now)
	b := learn("two")
	a := learn("one")
	l.Expire(now.Add(time.Hour))
	if !a.Forgotten() || !b.Forgotten() || l.Len() != 0 {
		t.Error("an account stays after its time")
	}
	learn("one")
	b = learn("two")
	a = learn("one")
	l.Clear()
	if !a.Forgotten() || !b.Forgotten() {
		t.Error("Clear leaves a password")
	}
}

// TestLearnedBound learns 10,000 accounts.
func TestLearnedBound(t *testing.T) {
	const most = 1000
	l, now := newLearned("user0", "user1"), time.Unix(1e9, 0)
	for i := range 10_000 {
		l.Learn(fmt.Sprint("user", i), "secret", false, true, now.Add(time.Duration(i)))
	}
	if n := l.Len(); n != most {
		t.Errorf("%d accounts, want %d", n, most)
	}
	for user, want := range map[string]bool{"user0": true, "user1": true, "user2": false, "user9001": false, "user9002": true, "user9999": true} {
		if got := l.Of(user) != nil; got != want {
			t.Errorf("%s is known: %v", user, got)
		}
	}
	if a, _ := l.Learn("long", strings.Repeat("x", 513), false, true, now); a != nil {
		t.Error("a password of 513 bytes was learned")
	}
	full := &pool.Learned{Life: time.Hour, InUse: func(string) bool { return true }}
	for i := range most + 1 {
		if a, _ := full.Learn(fmt.Sprint("user", i), "secret", false, true, now); (a == nil) != (i == most) {
			t.Fatalf("user %d: %v", i, a)
		}
	}
}

// TestLearnedIsSecret prints accounts.
func TestLearnedIsSecret(t *testing.T) {
	l := newLearned()
	a, _ := l.Learn("app", "hunter2", false, true, time.Unix(1e9, 0))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		for _, v := range []any{l, a, struct{ a *pool.Account }{a}, []*pool.Account{a}} {
			if s := fmt.Sprintf(verb, v); strings.Contains(s, "hunter2") || strings.Contains(s, fmt.Sprintf("%x", "hunter2")) {
				t.Errorf("%s of %T: %s", verb, v, s)
			}
		}
	}
}

func TestTurn(t *testing.T) {
	a, _ := newLearned().Learn("app", "secret", false, true, time.Unix(1e9, 0))
	done, err := a.Turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	late := errors.New("late")
	cancel(late)
	if _, err := a.Turn(ctx); !errors.Is(err, late) {
		t.Errorf("a second login at the same time: %v", err)
	}
	done()
	if done, err = a.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	done()
}
