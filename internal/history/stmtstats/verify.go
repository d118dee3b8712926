package stmtstats

import "fmt"

// stale is the value that overwrites invalid samples.
const stale = 0xDBDBDBDBDBDBDBDB

// verify panics if the table is inconsistent. The caller holds the lock, or has exclusive access.
func (t *Table) verify() {
	if !invariants {
		return
	}
	if err := t.check(); err != nil {
		panic("BUG: stmtstats: " + err.Error())
	}
}

// check returns an error if the table is inconsistent: each page must have one owner or be free, and each
// entry must be live, gone or unused.
func (t *Table) check() error {
	owned, err := t.mem.owned()
	if err != nil {
		return err
	}
	for _, n := range t.pages.numbers {
		if owned[n] {
			return fmt.Errorf("page %d has an owner and is free, or is free twice", n)
		}
		owned[n] = true
	}
	for n := fixedPages; n < len(owned); n++ {
		if !owned[n] {
			return fmt.Errorf("page %d is lost", n)
		}
	}
	unused := make(map[uint32]bool)
	for _, number := range t.unused {
		unused[number] = true
	}
	live, gone := 0, 0
	for i := 1; i < len(t.mem.entries); i++ {
		switch t.mem.entries[i].state() {
		case gateLive:
			live++
		case gateGone:
			gone++
		}
	}
	if live != t.live || len(unused) != len(t.unused) || live+gone+len(unused) != len(t.mem.entries)-1 {
		return fmt.Errorf("%d entries: %d live, %d gone, %d unused; %d are said to live", len(t.mem.entries)-1, live, gone, len(unused), t.live)
	}
	return nil
}
