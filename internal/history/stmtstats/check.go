package stmtstats

import (
	"errors"
	"fmt"

	"github.com/taredb/tare/querylog"
)

// readTable returns a memory of a file's content, which it does not change: a copy in anonymous memory if the file has other
// counters. It checks everything except counters. A table whose process was killed is valid.
func readTable(raw []byte) (*memory, error) {
	g, c, err := readHeader(raw)
	if err != nil {
		return nil, err
	}
	translated := !c.current()
	if translated {
		if raw, err = c.translate(raw, g); err != nil {
			return nil, err
		}
	}
	m := g.place(raw)
	m.translated = translated
	if _, err := m.owned(); err != nil {
		return nil, errors.Join(err, m.drop())
	}
	return m, nil
}

// owned returns the pages that have an owner.
func (m *memory) owned() ([]bool, error) {
	if r := m.header.redaction.Load(); r > uint64(querylog.RedactAll) {
		return nil, fmt.Errorf("written with redaction %d", r)
	}
	next := m.header.nextID.Load()
	if last := m.header.moved.Load() &^ movedSet; next < firstID || next >= movedSet || last >= next {
		return nil, fmt.Errorf("the next ID is %d after %d was evicted", next, last)
	}
	o := owners{mem: m, pages: make([]bool, len(m.pages)), ids: make(map[uint64]bool), keys: make(map[string]bool)}
	o.pages[0] = true
	for i := range m.entries {
		if err := o.entry(i); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
	}
	return o.pages, nil
}

// owners finds the owners of pages. A page has at most one.
type owners struct {
	mem   *memory
	pages []bool
	ids   map[uint64]bool
	keys  map[string]bool
	key   []byte
}

var errPage = errors.New("has a page that there is not, or that is another's")

func (o *owners) claim(page uint32) error {
	if page == 0 || int(page) >= len(o.pages) || o.pages[page] {
		return fmt.Errorf("%w: %d", errPage, page)
	}
	o.pages[page] = true
	return nil
}

// entry checks an entry and claims its pages.
func (o *owners) entry(number int) error {
	e := &o.mem.entries[number]
	state := o.mem.stateOf(e)
	switch {
	case state&(state-1) != 0:
		return fmt.Errorf("in several states at once (%#x)", state)
	case number == 0:
		if e.id != otherID || state != gateLive {
			return fmt.Errorf("is not the one of untracked digests: ID %d, state %#x", e.id, state)
		}
		for i := range e.octaves {
			if e.octaves[i].Load() != uint32(1+i) {
				return fmt.Errorf("%w: %d", errPage, e.octaves[i].Load())
			}
		}
	case state == 0:
		return nil
	default:
		if err := o.identity(e, state); err != nil {
			return err
		}
	}
	if state == gateGone {
		return nil
	}
	for i := range e.octaves {
		if n := e.octaves[i].Load(); n != 0 {
			if err := o.claim(n); err != nil {
				return err
			}
		}
	}
	if err := o.text(&e.text, MostText); err != nil {
		return err
	}
	for i := range e.slow {
		if s := &e.slow[i]; s.sum == s.checksum() {
			if err := o.text(&s.text, pageText); err != nil {
				return err
			}
		}
	}
	return nil
}

// identity checks the fields that are written once.
func (o *owners) identity(e *entry, state uint64) error {
	limit := inlineNames
	var page *page
	if e.namesPage != 0 {
		if err := o.claim(e.namesPage); err != nil {
			return err
		}
		limit, page = maxNames, &o.mem.pages[e.namesPage]
	}
	if e.sum != e.checksum(page) {
		return errors.New("its checksum does not match")
	}
	if n := int(e.schemaBytes) + int(e.userBytes) + int(e.backBytes); n > limit {
		return fmt.Errorf("has %d bytes of names", n)
	}
	if e.id < firstID || e.id >= o.mem.header.nextID.Load() || o.ids[e.id] {
		return fmt.Errorf("has an ID, %d, that is not its own", e.id)
	}
	o.ids[e.id] = true
	if state == gateGone {
		return nil
	}
	o.key = append(append(o.key[:0], e.digest[:]...), e.schemaBytes, e.userBytes)
	o.key = append(o.key, e.nameBytes(o.mem.pages)...)
	if o.keys[string(o.key)] {
		return errors.New("counts the same as another one")
	}
	o.keys[string(o.key)] = true
	return nil
}

// text claims the pages of a complete text. An incomplete one has none.
func (o *owners) text(ref *textRef, limit int) error {
	if !o.mem.isText(ref, limit) {
		return nil
	}
	n := ref.page
	for range textPages(int(ref.bytes)) {
		if err := o.claim(n); err != nil {
			return err
		}
		n = o.mem.next(n)
	}
	return nil
}

// stateOf returns the state with which an entry continues: another process may have been killed while the
// entry was sealed, or when its totals had already been added to the evicted ones.
func (m *memory) stateOf(e *entry) uint64 {
	state := e.state()
	if state == gateLive || state == gateSealed {
		if state = gateLive; e.id == m.header.moved.Load()&^movedSet {
			state = gateGone
		}
	}
	return state
}
