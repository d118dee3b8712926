package copier

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testseed"
)

// This model shows why rows that are read through many short views of different points in time equal the
// source's once all changes since the first snapshot are applied. A table has two columns, a key and a second
// one that is also unique. Random events:
//
//   - The source's transactions insert, delete and update rows, exchange unique values and change keys, at
//     any time.
//   - Chunks are copied in any order, each in parts that are read through views of any time after the
//     snapshot. Each run reads only keys up to the last one of its snapshot, in ascending or descending
//     order.
//   - The run is killed within a chunk, which the next run copies again, or while following, which then
//     resumes at the recorded position, at or before the last applied transaction.
//
// Once everything before the last view and everything applied before a kill is applied, the target must equal
// the source at that position, and stay equal.

// A viewMutant omits or changes a part of the reasoning.
type viewMutant string

const (
	noViewMutant viewMutant = ""
	fromLater    viewMutant = "following starts one transaction after the snapshot"
	fromLastView viewMutant = "following starts at the last view"
	staleView    viewMutant = "a view is older than the snapshot"
	keyAsOne     viewMutant = "a change of a key leaves the old one"
	exactAtOnce  viewMutant = "the target counts as the source before the last view is reached"
	noteAhead    viewMutant = "a position is recorded that is not applied"

	// The rule of DBLog, which applies changes between chunks. Here they are applied after all chunks: an
	// applied change of one row may displace another, whose later change is skipped because its chunk's view
	// contains it.
	skipSeen viewMutant = "changes that the view of their row's chunk has seen are skipped"

	earlyBound viewMutant = "the bound of the rows is of a state before the snapshot"
	openBound  viewMutant = "the row at the bound is not read"
	skipAbove  viewMutant = "changes of rows after the bound are not applied"
	wrongSide  viewMutant = "the bound is taken at the wrong end of a descending key"
)

const (
	viewKeys   = 6
	viewValues = 5
)

// A viewEvent is a change of one row: its key before and after; -1: no row.
type viewEvent struct{ before, after, value int }

// A viewModel is one random history.
type viewModel struct {
	rnd    *rand.Rand
	mutant viewMutant

	log    [][]viewEvent // transactions
	states []map[int]int // the source before each of them, and after the last: key to value
	now    int           // number of committed transactions

	target   map[int]int
	seen     [viewKeys]int // position of the view through which a key was last read into the target
	start    int           // position of the snapshot
	down     bool          // the key is in descending order
	bound    int           // of the rows that the run reads, by rank; -1: there were none
	lastView int
	trace    []string
}

func (m *viewModel) say(format string, a ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, a...))
}

// write returns a random transaction that obeys the source's constraints: both columns are unique.
func (m *viewModel) write(rows map[int]int) (txn []viewEvent) {
	for range 1 + m.rnd.IntN(3) {
		k, v := m.rnd.IntN(viewKeys), m.rnd.IntN(viewValues)
		_, has := rows[k]
		taken := slices.Contains(slices.Collect(maps.Values(rows)), v)
		switch n := m.rnd.IntN(4); {
		case !has && !taken:
			txn = append(txn, viewEvent{-1, k, v})
			rows[k] = v
		case has && n == 0:
			txn = append(txn, viewEvent{k, -1, 0})
			delete(rows, k)
		case has && n == 1: // another key, and another value if that is free
			if to := m.rnd.IntN(viewKeys); !hasKey(rows, to) {
				if taken {
					v = rows[k]
				}
				txn = append(txn, viewEvent{k, to, v})
				delete(rows, k)
				rows[to] = v
			}
		case has && !taken:
			txn = append(txn, viewEvent{k, k, v})
			rows[k] = v
		}
	}
	return txn
}

func hasKey(rows map[int]int, k int) bool { _, ok := rows[k]; return ok }

// replace executes REPLACE: rows with the same key or value are removed.
func replace(rows map[int]int, k, v int) {
	maps.DeleteFunc(rows, func(key, value int) bool { return key == k || value == v })
	rows[k] = v
}

// apply applies an event to the target.
func (m *viewModel) apply(at int, e viewEvent) {
	if e.before >= 0 && e.before != e.after && (m.mutant != keyAsOne || e.after < 0) && !m.skips(at, e.before) {
		delete(m.target, e.before)
	}
	if e.after >= 0 && !m.skips(at, e.after) {
		replace(m.target, e.after, e.value)
	}
}

func (m *viewModel) skips(at, key int) bool {
	return m.mutant == skipSeen && at < m.seen[key] || m.mutant == skipAbove && m.rank(key) > m.bound
}

// rank returns the position of a key in the order of the table.
func (m *viewModel) rank(k int) int {
	if m.down {
		return viewKeys - 1 - k
	}
	return k
}

// findBound sets the last key of the run's snapshot, which is taken now.
func (m *viewModel) findBound() {
	at := m.now
	if m.mutant == earlyBound {
		at = 0
	}
	m.bound = -1
	for k := range m.states[at] {
		rank := m.rank(k)
		if m.mutant == wrongSide {
			rank = k
		}
		m.bound = max(m.bound, rank)
	}
	m.say("rows are read up to rank %d, as of %d", m.bound, at)
}

// bounded reports whether a key is read.
func (m *viewModel) bounded(k int) bool {
	return m.rank(k) < m.bound || m.rank(k) == m.bound && m.mutant != openBound
}

// copy copies all chunks, in runs that are killed.
func (m *viewModel) copy() {
	m.findBound()
	chunks := m.rnd.Perm(viewKeys / 2) // of two keys each
	for len(chunks) > 0 {
		before, seen := maps.Clone(m.target), m.seen
		first := 2 * chunks[0]
		view := -1
		for k := first; k < first+2; k++ { // in one or two parts
			if view < 0 || m.rnd.IntN(2) == 0 {
				m.now = min(len(m.log), m.now+m.rnd.IntN(4))
				view = m.now
				if m.mutant == staleView && m.rnd.IntN(4) == 0 {
					view = max(0, m.start-1)
				}
				m.lastView = max(m.lastView, view)
			}
			if !m.bounded(k) {
				continue
			}
			m.seen[k] = view
			v, ok := m.states[view][k]
			m.say("key %d is read in a view at %d: %d, %v", k, view, v, ok)
			if !ok {
				continue
			}
			replace(m.target, k, v)
		}
		if m.rnd.IntN(4) == 0 {
			m.target, m.seen = before, seen
			m.say("the run is killed before it has committed these")
			m.findBound()
			continue
		}
		chunks = chunks[1:]
	}
}

var errViewLoss = errors.New("the target is not the source")

// follow applies the log from the snapshot on, with kills.
func (m *viewModel) follow() error {
	at, reached := m.start, m.lastView
	switch m.mutant {
	case fromLater:
		at++
	case fromLastView:
		at = m.lastView
	case exactAtOnce:
		reached = 0
	}
	noted := at
	for kills := 3; at < len(m.log); {
		if m.mutant == noteAhead {
			noted = at + 1
		}
		for _, e := range m.log[at] {
			if m.mutant == noteAhead && kills > 0 && m.rnd.IntN(8) == 0 {
				break
			}
			m.apply(at, e)
		}
		at++
		reached = max(reached, at)
		m.say("transaction %d is applied: %v: the target is %v", at-1, m.log[at-1], m.target)
		if m.mutant != noteAhead && m.rnd.IntN(2) == 0 {
			noted = at
		}
		if kills > 0 && m.rnd.IntN(8) == 0 {
			kills--
			at = noted
			m.say("the run is killed; the next one starts at %d", at)
			continue
		}
		if at >= reached && !maps.Equal(m.target, m.states[at]) {
			return fmt.Errorf("%w at %d: it has %v, the target %v", errViewLoss, at, m.states[at], m.target)
		}
	}
	if !maps.Equal(m.target, m.states[len(m.log)]) {
		return fmt.Errorf("%w at its end: it has %v, the target %v", errViewLoss, m.states[len(m.log)], m.target)
	}
	return nil
}

func playViews(seed uint64, mutant viewMutant) (*viewModel, error) {
	m := &viewModel{rnd: rand.New(rand.NewPCG(seed, 1)), mutant: mutant, target: make(map[int]int)}
	rows := make(map[int]int)
	m.states = append(m.states, maps.Clone(rows))
	for range 24 {
		m.log = append(m.log, m.write(rows))
		m.states = append(m.states, maps.Clone(rows))
	}
	m.start, m.down = m.rnd.IntN(7), m.rnd.IntN(2) == 0 // the table may be empty
	m.now, m.lastView = m.start, m.start
	m.copy()
	return m, m.follow()
}

// TestViewModel checks that random histories end with the source's rows.
func TestViewModel(t *testing.T) {
	first := testseed.New(t)
	for i := range 4 * histories() {
		if m, err := playViews(first+i, noViewMutant); err != nil {
			t.Fatalf("history %d: %v\n%s", first+i, err, strings.Join(m.trace, "\n"))
		}
	}
}

// TestViewModelMutants checks that the model finds a loss wherever the reasoning is changed.
func TestViewModelMutants(t *testing.T) {
	first := testseed.New(t)
	for _, mutant := range []viewMutant{fromLater, fromLastView, staleView, keyAsOne, exactAtOnce, noteAhead, skipSeen, earlyBound, openBound, skipAbove, wrongSide} {
		t.Run(string(mutant), func(t *testing.T) {
			mustLose(t, first, errViewLoss, func(seed uint64) ([]string, error) {
				m, err := playViews(seed, mutant)
				return m.trace, err
			})
		})
	}
}
