package tsblock

import (
	"unsafe"

	"github.com/taredb/tare/internal/slab"
)

// Sizes of the slabs of a batch's text.
const (
	firstTextSlab  = 1 << 10
	secondTextSlab = 4 << 10
	thirdTextSlab  = 16 << 10
	textSlab       = 128 << 10
)

// A textArena stores strings in slabs.
type textArena struct {
	pool  *slab.Pool
	slabs []slab.Slab
	few   [3]slab.Slab
	room  []byte // rest of the last slab
}

// add appends a copy of s and returns it. The copy is valid until release.
func (t *textArena) add(s []byte, a *account) (string, error) {
	if len(s) == 0 {
		return "", nil
	}
	if len(s) > len(t.room) {
		size := textSlab
		switch len(t.slabs) {
		case 0:
			size = firstTextSlab
		case 1:
			size = secondTextSlab
		case 2:
			size = thirdTextSlab
		}
		size = max(size, len(s))
		if err := a.reserve(slab.Series, t.pool.Size(size)); err != nil {
			return "", err
		}
		next := t.pool.Bytes(size)
		if t.slabs == nil {
			t.slabs = t.few[:0]
		}
		t.slabs = append(t.slabs, next)
		t.room = next.Bytes()
	}
	n := copy(t.room, s)
	text := unsafe.String(unsafe.SliceData(t.room), n)
	t.room = t.room[n:]
	return text, nil
}

func (t *textArena) release() {
	for _, s := range t.slabs {
		s.Release()
	}
	t.slabs, t.room = nil, nil
}
