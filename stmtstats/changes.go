package stmtstats

// A Mark identifies the state of an entry when it was read; the zero Mark is that of no entry. The entry was not
// written to since if it has the same one.
type Mark struct {
	id    uint64
	state uint64 // the gate, in which no writer is inside, and markTextless
}

// ID returns the ID of the entry.
func (m Mark) ID() uint64 { return m.id }

// markTextless says that an entry would have kept a text, but had none. It is a bit of gateInside.
const markTextless = 1

// A Change is an entry that has another Mark than before. It is valid during the visit of Changes.
type Change struct {
	Number int // of the entry; that of the evicted Keys' totals is the last
	Kind   Kind
	Mark   Mark
	Live   bool  // it counts the calls of a Key
	Last   int64 // when the last call had ended, in Unix nanoseconds; 0: there was none

	table *Table
	entry *entry // nil for the evicted Keys' totals
}

// Numbers returns how many entries Changes reads: their numbers are below it.
func (t *Table) Numbers() int { return len(t.mem.entries) + 1 }

// Changes visits those entries from one number up to another that have another Mark than the one that mark returns, and
// the totals of the evicted Keys each time. New Keys wait until all of these entries are visited. It reports false if
// the table was closed.
func (t *Table) Changes(from, to int, mark func(number int) Mark, visit func(c *Change)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed.Load() {
		return false
	}
	for number := from; number < to; number++ {
		c := Change{Number: number, table: t}
		if number == len(t.mem.entries) {
			c.Kind, c.Live, c.Last = Evicted, true, t.mem.sets[t.mem.header.set()].last
			visit(&c)
			continue
		}
		e := &t.mem.entries[number]
		state := e.gate.Load()
		quiet := state&gateInside == 0
		if quiet {
			state |= uint64(e.textless.Load()) * markTextless
		}
		if was := mark(number); quiet && state == was.state {
			continue // for a line of the processor's cache
		}
		c.entry, c.Live, c.Last, c.Mark.id = e, state&gateStates == gateLive, e.last.Load(), e.id
		if number == 0 {
			c.Kind = Other
		}
		if quiet {
			c.Mark.state = state
		}
		visit(&c)
	}
	return true
}

// Counters returns what the entry has counted.
func (c *Change) Counters() Counters {
	if c.entry == nil {
		return countersOf(&c.table.mem.sets[c.table.mem.header.set()].counters)
	}
	counters := c.entry.load()
	return countersOf(&counters)
}

// HasText reports whether the text of the statement is known.
func (c *Change) HasText() bool { return c.Kind == Tracked && c.entry.text.bytes > 0 }

// Key returns the Key of the entry.
func (c *Change) Key() Key {
	if c.Kind != Tracked {
		return Key{}
	}
	return c.table.names.key(c.entry, c.table.mem.pages)
}

// Text returns the text of the statement, "" when it is not known.
func (c *Change) Text() string {
	if c.Kind != Tracked {
		return ""
	}
	text, _ := c.table.textOf(c.entry)
	return text
}
