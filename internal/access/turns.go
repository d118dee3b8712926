package access

import "slices"

// A trust is how trustworthy an address is, from the highest.
type trust uint8

const (
	trustKnown   trust = iota // it has sent a right password
	trustFresh                // no wrong password came from its network
	trustSuspect              // some did
	trusts
)

// turns is the order of the checks of passwords, one at a time. An address of a higher trust comes first. Among those of the same trust the
// newest and the oldest come in turn: with o that wait before one, and n that come while it waits, it has at most 2 × min(o, n) + 1 checks
// before its own, besides that which runs and those of a higher trust. A fresh network is so until its first wrong password,
// so it delays others of that trust once. The zero value is ready to use. The caller prevents concurrent calls.
type turns struct {
	running bool
	waiting [trusts]struct {
		all    []*waiter // from the oldest
		oldest bool      // is next
	}
}

// A waiter waits for its turn.
type waiter struct {
	trust trust
	ready chan struct{} // closed when it has the turn
}

// enter returns nil if it is the caller's turn, or a waiter. The turn ends with next.
func (t *turns) enter(trust trust) *waiter {
	if !t.running {
		t.running = true
		return nil
	}
	w := &waiter{trust, make(chan struct{})}
	t.waiting[trust].all = append(t.waiting[trust].all, w)
	return w
}

// next ends a turn, and begins that of the next waiter.
func (t *turns) next() {
	t.running = false
	for i := range t.waiting {
		q := &t.waiting[i]
		if len(q.all) == 0 {
			continue
		}
		at := len(q.all) - 1
		if q.oldest {
			at = 0
		}
		w := q.all[at]
		q.all, q.oldest = slices.Delete(q.all, at, at+1), !q.oldest
		t.running = true
		close(w.ready)
		return
	}
}

// remove removes a waiter, or returns false if it has its turn.
func (t *turns) remove(w *waiter) bool {
	q := &t.waiting[w.trust]
	at := slices.Index(q.all, w)
	if at < 0 {
		return false
	}
	q.all = slices.Delete(q.all, at, at+1)
	return true
}
