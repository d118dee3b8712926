package stmtstats

// A Mark identifies the state of an entry when it was read. The zero Mark belongs to no entry. An entry with
// an unchanged Mark was not written to.
type Mark struct {
	id    uint64
	state uint64 // the gate, with no writer inside, and markTextless
}

// ID returns the ID of the entry.
func (m Mark) ID() uint64 { return m.id }

// markTextless is set if an entry would have kept a text, but had none. It is a bit of gateInside.
const markTextless = 1

// A Change is an entry whose Mark has changed. It is valid until the visit of Changes returns.
type Change struct {
	Number int // of the entry; the last number is that of the evicted Keys' totals
	Kind   Kind
	Mark   Mark
	Live   bool  // it counts the calls of a Key
	Last   int64 // as Sample.Last, in Unix nanoseconds; 0: no call

	table *Table
	entry *entry // nil for the evicted Keys' totals
}

// Numbers returns the number of entries that Changes reads; their numbers are below it.
func (t *Table) Numbers() int { return len(t.mem.entries) + 1 }

// Changes visits the entries in [from, to) whose Mark differs from the one that mark returns, and always the
// totals of the evicted Keys. New Keys wait until all of these entries are visited. It reports false if the
// table was closed.
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
			continue // at the cost of one cache line
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

// Counts returns the counters of the entry, of Calls only those of the zero bucket.
func (c *Change) Counts() Counts {
	if c.entry == nil {
		return c.table.mem.sets[c.table.mem.header.set()].counters
	}
	return c.entry.load()
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

// Text returns the text of the statement, "" if it is unknown.
func (c *Change) Text() string {
	if c.Kind != Tracked {
		return ""
	}
	text, _ := c.table.textOf(c.entry)
	return text
}
