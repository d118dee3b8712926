package slab

import "container/list"

// A lane is a number of bytes and the queries that wait for them. It is guarded by its gate's mu.
type lane struct {
	free    int64
	waiting int
	turns   list.List // of *turn: the keys of waiting queries, the next one at the front
	keys    map[string]*turn
}

// A turn is the waiting queries of a key.
type turn struct {
	key     string
	place   *list.Element // in turns
	waiters list.List     // of *waiter, in order of arrival
}

// A waiter waits for first bytes.
type waiter struct {
	turn     *turn
	account  *keyAccount   // of its key; nil without limits
	place    *list.Element // in turn.waiters
	first    int64
	granted  bool
	admitted chan struct{} // closed when granted is set
}

func newLane(bytes int64) lane { return lane{free: bytes, keys: make(map[string]*turn)} }

// push appends a waiter to those of its key.
func (l *lane) push(key string, first int64, account *keyAccount) *waiter {
	t := l.keys[key]
	if t == nil {
		t = &turn{key: key}
		t.place = l.turns.PushBack(t)
		l.keys[key] = t
	}
	w := &waiter{turn: t, account: account, first: first, admitted: make(chan struct{})}
	w.place = t.waiters.PushBack(w)
	l.waiting++
	return w
}

// remove removes a waiter. If it is admitted or was at the front, its key moves behind the others.
func (l *lane) remove(w *waiter, admitted bool) {
	t := w.turn
	atFront := l.turns.Front() == t.place && t.waiters.Front() == w.place
	t.waiters.Remove(w.place)
	l.waiting--
	switch {
	case t.waiters.Len() == 0:
		l.turns.Remove(t.place)
		delete(l.keys, t.key)
	case admitted || atFront:
		l.turns.MoveToBack(t.place)
	}
}
