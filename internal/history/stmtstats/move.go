package stmtstats

import (
	"cmp"
	"slices"
	"unsafe"
)

// move copies the table in old to another one, in the order of the most recent calls. Entries without room
// are evicted.
func (t *Table) move(to, old *memory) {
	h := to.header
	h.redaction.Store(old.header.redaction.Load())
	h.nextID.Store(old.header.nextID.Load())
	to.sets[0] = old.sets[old.header.set()]
	free := pageStack{}
	free.fill(make([]bool, len(to.pages)))
	free.numbers = free.numbers[:len(free.numbers)-(fixedPages-1)] // Other's are on top
	order := make([]int, 0, len(old.entries))
	for i := 1; i < len(old.entries); i++ {
		if state := old.stateOf(&old.entries[i]); state == gateLive || state == gateGone {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Compare(old.entries[b].last.Load(), old.entries[a].last.Load())
	})
	c := mover{to: to, old: old, free: &free}
	c.fixed(&to.entries[0], &old.entries[0])
	next := 1
	var names nameTable
	for _, i := range order {
		e := &old.entries[i]
		gone := old.stateOf(e) == gateGone
		if !gone && next < len(to.entries) && c.entry(&to.entries[next], e) {
			next++
			continue
		}
		if !gone {
			to.sets[0].add(e, old.pages)
		}
		t.dropped = append(t.dropped, dropped{names.key(e, old.pages), e.id, e.first, e.last.Load()})
	}
}

// A mover copies entries between two memories.
type mover struct {
	long    int // pages of long texts beyond shortPages each
	to, old *memory
	free    *pageStack
}

// fixed copies the counters of an entry whose pages are the same in both.
func (v *mover) fixed(to, e *entry) {
	to.last.Store(e.last.Load())
	for i := range e.counters {
		to.counters[i].Store(e.counters[i].Load())
	}
	for o := range e.octaves {
		v.page(to.octaves[o].Load(), e.octaves[o].Load())
	}
}

// page copies a page.
func (v *mover) page(to, from uint32) { *v.to.pages[to].bytes() = *v.old.pages[from].bytes() }

// entry copies an entry with all its pages, unless there are too few.
func (v *mover) entry(to, e *entry) bool {
	need := 0
	for o := range e.octaves {
		if e.octaves[o].Load() != 0 {
			need++
		}
	}
	if e.namesPage != 0 {
		need++
	}
	if need > v.free.free() {
		return false
	}
	*(*[entryBytes]byte)(unsafe.Pointer(to)) = *(*[entryBytes]byte)(unsafe.Pointer(e))
	var names *page
	if e.namesPage != 0 {
		to.namesPage = v.free.take()
		v.page(to.namesPage, e.namesPage)
		names = &v.to.pages[to.namesPage]
	}
	for o := range e.octaves {
		if n := e.octaves[o].Load(); n != 0 {
			to.octaves[o].Store(v.free.take())
			v.page(to.octaves[o].Load(), n)
		}
	}
	to.sum = to.checksum(names)
	to.text = v.text(&e.text, MostText)
	for i := range e.slow {
		to.slow[i].text = v.text(&e.slow[i].text, pageText)
	}
	to.gate.Store(gateLive)
	return true
}

// text copies a text if there is room. It is dropped otherwise, as it is not essential.
func (v *mover) text(from *textRef, limit int) (to textRef) {
	if !v.old.isText(from, limit) {
		return to
	}
	text, _ := v.old.appendText(nil, from)
	if long := longPages(len(text)); long > 0 && v.long+long > len(v.to.pages)/longTextPart {
		return to // the next call stores it again
	}
	if v.to.putText(v.free, &to, text, from.cut != 0, limit) {
		v.long += longPages(int(to.bytes))
	}
	return to
}
