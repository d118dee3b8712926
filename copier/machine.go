package copier

import (
	"fmt"

	"github.com/taredb/tare/copier/tabledef"
	"github.com/taredb/tare/rowstream"
)

// The machine decides what is done next. It knows tables, chunks and workers by number,
// touches no server and no clock, and so can be read and tested as a list of events and
// answers (testdata/machine).

// A step is one piece of work for one worker.
type step struct {
	do    act
	table int
	chunk rowstream.Chunk // for copyChunk
}

// An act is what a step does.
type act uint8

const (
	wait         act = iota // nothing now: another worker's result will bring more
	cutChunk                // cut the table's next chunk and note it in the state
	copyChunk               // copy a chunk and note that in the same transaction
	buildIndexes            // add the secondary indexes that were left out
	stop                    // nothing ever: all is done, or an error ended the run
)

var actNames = [...]string{"wait", "cut", "copy", "indexes", "stop"}

func (a act) String() string { return actNames[a] }

// tableProgress is what the machine knows of a table.
type tableProgress struct {
	name    string
	phase   tabledef.Phase
	cutting bool            // a worker cuts its next chunk
	cut     bool            // its last chunk is cut
	next    rowstream.Chunk // the one to be cut: its number and where it begins
	waiting []rowstream.Chunk
	running int // chunks that workers copy
	chunks  int // cut so far
	done    int // copied so far
	indexes bool
}

type machine struct {
	tables []tableProgress
	ahead  int // chunks that are cut and not yet taken, at most, a table
	failed bool
}

// newMachine begins where the tables' progress says.
func newMachine(tables []tableProgress, workers int) *machine {
	return &machine{tables: tables, ahead: 2 * workers}
}

// next is what a free worker does now. Tables are taken in their order, so that the first
// ones are finished early; indexes are built before further rows are copied, since the
// server does that on its own.
func (m *machine) next() step {
	if m.failed {
		return step{do: stop}
	}
	finishedTables := 0
	for i := range m.tables {
		t := &m.tables[i]
		switch {
		case t.phase == tabledef.Finished:
			finishedTables++
		case t.phase == tabledef.Indexing:
			if !t.indexes {
				t.indexes = true
				return step{do: buildIndexes, table: i}
			}
		case !t.cut && !t.cutting && len(t.waiting) < m.ahead:
			t.cutting = true
			return step{do: cutChunk, table: i}
		case len(t.waiting) > 0:
			c := t.waiting[0]
			t.waiting = t.waiting[1:]
			t.running++
			return step{do: copyChunk, table: i, chunk: c}
		}
	}
	if finishedTables == len(m.tables) {
		return step{do: stop}
	}
	return step{do: wait}
}

// wasCut notes that a worker cut a chunk; last says that no more follow.
func (m *machine) wasCut(table int, c rowstream.Chunk, last bool) {
	t := &m.tables[table]
	if !t.cutting || c.Number != t.chunks {
		panic(fmt.Sprintf("BUG: chunk %d of %s was cut after %d others", c.Number, t.name, t.chunks))
	}
	t.cutting, t.cut = false, last
	t.chunks++
	t.next = rowstream.Chunk{Number: t.chunks, After: c.Upto}
	t.waiting = append(t.waiting, c)
}

// wasCopied notes that a chunk is in the target. After the table's last one its indexes are due.
func (m *machine) wasCopied(table int) {
	t := &m.tables[table]
	t.running--
	t.done++
	if t.cut && t.done == t.chunks {
		t.phase = tabledef.Indexing
	}
}

// wasIndexed notes that a table is finished.
func (m *machine) wasIndexed(table int) { m.tables[table].phase = tabledef.Finished }

// fail ends the run: no worker gets anything more to do.
func (m *machine) fail() { m.failed = true }
