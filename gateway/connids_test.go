package gateway

import (
	"math"
	"testing"
)

// TestConnIDsAreSigned numbers sessions until the numbers wrap around: they are positive in 32 bits with a
// sign, and recognized.
func TestConnIDsAreSigned(t *testing.T) {
	var ids connIDs
	for _, last := range []uint32{0, 5, firstConnID - 2, firstConnID - 1, 2*firstConnID - 1, math.MaxUint32 - 1, math.MaxUint32} {
		ids.last = last
		id := ids.next()
		if int32(id) <= 0 || id < firstConnID {
			t.Errorf("after %d: number %d", last, id)
		}
		s := &session{to: &target{}}
		ids.add(id, s)
		s.shown.connection.Store(7)
		if n, ok := ids.backendID(uint64(id), s); !ok || n != 7 {
			t.Errorf("number %d is the backend's %d, %t", id, n, ok)
		}
	}
	if _, ok := ids.backendID(1<<32|firstConnID|6, &session{to: &target{}}); ok {
		t.Error("a number of more than 32 bits is recognized")
	}
}
