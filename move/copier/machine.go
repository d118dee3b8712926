package copier

import (
	"fmt"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/mysql/rowstream"
)

// The machine decides the next step of each worker. It identifies tables, chunks and workers by number and
// uses no server and no clock, so that its tests are lists of events and resulting steps (testdata/machine).

// A step is one unit of work of a worker.
type step struct {
	do    act
	table int
	chunk rowstream.Chunk // of copyChunk
}

// An act is the kind of a step.
type act uint8

const (
	wait         act = iota // no work now: the result of another worker will produce some
	cutChunk                // cut the table's next chunk and record it in the state
	copyChunk               // copy a chunk and record it in the same transaction
	buildIndexes            // add the secondary indexes that were left out
	stop                    // no more work: the copy is finished, or an error ended the run
)

var actNames = [...]string{"wait", "cut", "copy", "indexes", "stop"}

func (a act) String() string { return actNames[a] }

// tableProgress is the machine's state of a table.
type tableProgress struct {
	name    string
	phase   tabledef.Phase
	cutting bool            // a worker is cutting the next chunk
	cut     bool            // the last chunk is cut
	next    rowstream.Chunk // the next chunk to cut: its number and start key
	waiting []rowstream.Chunk
	running int // chunks being copied
	chunks  int // cut so far
	done    int // copied so far
	indexes bool
}

type machine struct {
	tables []tableProgress
	ahead  int // maximum number of chunks per table that are cut and not yet taken
	failed bool
}

// newMachine returns a machine that resumes from the tables' progress.
func newMachine(tables []tableProgress, workers int) *machine {
	return &machine{tables: tables, ahead: 2 * workers}
}

// next returns the next step of a free worker. Tables are taken in order, so that the first ones finish
// early. Indexes are built before further rows are copied, since the server builds them without a worker's
// help.
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

// wasCut records that a worker cut a chunk; last reports that it was the table's last one.
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

// wasCopied records that a chunk is in the target. After the table's last chunk its indexes are due.
func (m *machine) wasCopied(table int) {
	t := &m.tables[table]
	t.running--
	t.done++
	if t.cut && t.done == t.chunks {
		t.phase = tabledef.Indexing
	}
}

// wasIndexed records that a table is finished.
func (m *machine) wasIndexed(table int) { m.tables[table].phase = tabledef.Finished }

// fail ends the run: next returns stop to all workers.
func (m *machine) fail() { m.failed = true }
