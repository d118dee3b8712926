package gateway

import (
	"testing"

	"github.com/taredb/tare/internal/gateway/switchover"
)

// TestConnIDs moves a session from an id to another: it is found by its client's id on its current server only, and no
// other session takes one of its ids.
func TestConnIDs(t *testing.T) {
	const here, there = switchover.Backend, switchover.Standby
	ids := connIDs{moving: true}
	newSession := func(greeted, now uint32, at switchover.Side) *shown {
		s := &shown{}
		s.greeted.Store(greeted)
		s.connection.Store(now)
		s.side.Store(uint32(at))
		return s
	}
	moved, other := newSession(12, 57, there), newSession(13, 13, there)
	if !ids.take(12, moved) || !ids.take(57, moved) || !ids.take(13, other) || !ids.take(13, other) {
		t.Error("a free id cannot be taken")
	}
	if ids.take(12, other) || ids.take(57, other) {
		t.Error("an id of another session is taken")
	}
	if now, ok := ids.moved(12, there); !ok || now != 57 {
		t.Errorf("id 12 is %d now, %t; want 57", now, ok)
	}
	for _, id := range []uint64{57, 13, 14, 1<<32 | 12} {
		if now, ok := ids.moved(id, there); ok {
			t.Errorf("id %d is replaced by %d", id, now)
		}
	}
	if now, ok := ids.moved(12, here); ok {
		t.Errorf("id 12 is replaced by %d on another server", now)
	}
	ids.remove(57, moved)
	if !ids.take(12, other) || !ids.take(57, other) {
		t.Error("the ids of a session that ended cannot be taken")
	}
	ids = connIDs{}
	if !ids.take(12, moved) || !ids.take(12, other) || len(ids.of) != 0 {
		t.Error("ids are kept although sessions cannot move")
	}
}
