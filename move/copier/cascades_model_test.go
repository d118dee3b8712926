package copier

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testseed"
)

// This model shows why unlogged changes by foreign keys can be derived from the log while rows are read
// through views of different points in time. It has a table of parents, and one of children with three
// columns: one whose foreign key deletes rows, one whose key sets it to NULL, and one whose values are
// unique. Random events:
//
//   - The source's transactions insert and delete parents, with and without checks of foreign keys, and write and delete children.
//   - Each row is read through a view of any point in time after the start of its table; the children start at or after the parents.
//   - Following is killed, and resumes at the recorded position, at or before the last applied transaction.
//
// Once everything before the last view and everything applied before a kill is applied, the target must equal
// the source at that position, and stay equal. A row that was written without checks and refers to a parent
// stops the copy, which loses nothing.

// A cascadeMutant omits a part of the reasoning, or derives changes that the copier refuses.
type cascadeMutant string

const (
	noCascadeMutant cascadeMutant = ""
	notDerived      cascadeMutant = "changes of keys are not derived"
	deriveUnchecked cascadeMutant = "deletions without checks are taken for others"
	deriveFirst     cascadeMutant = "changes of keys are applied before the other changes of a transaction"
	deriveEarly     cascadeMutant = "deletions before the start of the children count"
	lateParents     cascadeMutant = "parents start after the children"
	writeUnchecked  cascadeMutant = "rows that are written without checks do not stop the copy"
	deriveUpdates   cascadeMutant = "ON UPDATE CASCADE is derived"
	deriveChains    cascadeMutant = "what keys do because of derived changes is derived, from the target's rows"
)

const (
	cascadeParents  = 3
	cascadeChildren = 5
	cascadeNull     = -1
)

// A cascadeRow is a child row.
type cascadeRow struct{ deletes, nulls, unique int }

// A cascadeState has the rows of a server.
type cascadeState struct {
	parents  map[int]bool
	children map[int]cascadeRow
	grand    map[int]int // rows that refer to children, by a key that deletes them; only for deriveChains
}

func (s cascadeState) clone() cascadeState {
	return cascadeState{maps.Clone(s.parents), maps.Clone(s.children), maps.Clone(s.grand)}
}

func (s cascadeState) equal(o cascadeState) bool {
	return maps.Equal(s.parents, o.parents) && maps.Equal(s.children, o.children) && maps.Equal(s.grand, o.grand)
}

type cascadeKind int

const (
	putParent cascadeKind = iota
	deleteParent
	moveParent
	putChild
	deleteChild
	putGrand
)

// A cascadeEvent is a change in the log.
type cascadeEvent struct {
	kind      cascadeKind
	key, to   int
	row       cascadeRow
	unchecked bool
	missed    []int // children that deleteParent did not find: they were written without checks after it was executed, and logged before it
}

// cascade applies the actions of the keys when a parent is deleted.
func (s cascadeState) cascade(parent int, missed []int) {
	for k, row := range s.children {
		switch {
		case slices.Contains(missed, k):
		case row.deletes == parent:
			s.deleteChild(k)
		case row.nulls == parent:
			row.nulls = cascadeNull
			s.children[k] = row
		}
	}
}

// deleteChild deletes a child and the rows that refer to it.
func (s cascadeState) deleteChild(k int) {
	delete(s.children, k)
	maps.DeleteFunc(s.grand, func(_, child int) bool { return child == k })
}

// move changes the key of a parent and of its children.
func (s cascadeState) move(from, to int) {
	for k, row := range s.children {
		if row.deletes == from {
			row.deletes = to
			s.children[k] = row
		}
	}
}

// A cascadeModel is one random history.
type cascadeModel struct {
	rnd    *rand.Rand
	mutant cascadeMutant
	log    [][]cascadeEvent
	states []cascadeState
	target cascadeState

	parents, children int // start positions of the tables
	lastView          int
	trace             []string
}

func (m *cascadeModel) say(format string, a ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, a...))
}

// parent returns an existing parent, or NULL.
func (m *cascadeModel) parent(s cascadeState) int {
	if p := m.rnd.IntN(cascadeParents); s.parents[p] {
		return p
	}
	return cascadeNull
}

// write returns a random transaction of the source that obeys its constraints.
func (m *cascadeModel) write(s cascadeState) (txn []cascadeEvent) {
	for range 1 + m.rnd.IntN(3) {
		p, k := m.rnd.IntN(cascadeParents), m.rnd.IntN(cascadeChildren)
		e := cascadeEvent{key: p, unchecked: m.rnd.IntN(8) == 0}
		switch m.rnd.IntN(7) {
		case 0, 1:
			e.kind = putParent
			s.parents[p] = true
		case 2:
			if !s.parents[p] {
				continue
			}
			e.kind = deleteParent
			delete(s.parents, p)
			if !e.unchecked {
				s.cascade(p, nil)
			}
		case 3:
			e.kind, e.key = deleteChild, k
			if _, ok := s.children[k]; !ok {
				continue
			}
			s.deleteChild(k)
		case 4:
			if to := m.rnd.IntN(cascadeParents); m.mutant == deriveUpdates && s.parents[p] && !s.parents[to] {
				e.kind, e.to, e.unchecked = moveParent, to, false
				delete(s.parents, p)
				s.parents[to] = true
				s.move(p, to)
				break
			}
			g := m.rnd.IntN(cascadeChildren)
			if _, ok := s.children[k]; m.mutant != deriveChains || !ok {
				continue
			}
			e.kind, e.key, e.to = putGrand, g, k
			s.grand[g] = k
		default:
			e.kind, e.key, e.row = putChild, k, cascadeRow{m.parent(s), m.parent(s), m.rnd.IntN(cascadeChildren)}
			e.unchecked = e.unchecked && m.mutant == writeUnchecked
			if slices.ContainsFunc(slices.Collect(maps.Values(s.children)), func(r cascadeRow) bool { return r.unique == e.row.unique }) {
				e.row.unique = cascadeNull
			}
			s.children[k] = e.row
			if e.unchecked && e.row.deletes >= 0 && m.rnd.IntN(2) == 0 { // while its parent is being deleted by a transaction that commits next
				txn = append(txn, e)
				parent := e.row.deletes
				e = cascadeEvent{kind: deleteParent, key: parent, missed: []int{k}}
				delete(s.parents, parent)
				s.cascade(parent, e.missed)
			}
		}
		txn = append(txn, e)
	}
	return txn
}

// applyDerived applies the actions of the keys that follow from an event.
func (m *cascadeModel) applyDerived(at int, e cascadeEvent) {
	switch {
	case m.mutant == notDerived, m.mutant == lateParents && at < m.parents, at < m.children && m.mutant != deriveEarly:
	case e.unchecked && m.mutant != deriveUnchecked:
	case e.kind == deleteParent:
		m.target.cascade(e.key, nil)
	case e.kind == moveParent:
		m.target.move(e.key, e.to)
	}
}

// applyLogged applies an event to the row that it names.
func (m *cascadeModel) applyLogged(at int, e cascadeEvent) {
	s := m.target
	switch {
	case e.kind <= moveParent && at < m.parents, e.kind > moveParent && at < m.children:
	case e.kind == putParent:
		s.parents[e.key] = true
	case e.kind == deleteParent:
		delete(s.parents, e.key)
	case e.kind == moveParent:
		delete(s.parents, e.key)
		s.parents[e.to] = true
	case e.kind == deleteChild:
		s.deleteChild(e.key)
	case e.kind == putGrand:
		s.grand[e.key] = e.to
	case e.kind == putChild: // REPLACE
		maps.DeleteFunc(s.children, func(_ int, r cascadeRow) bool { return r.unique >= 0 && r.unique == e.row.unique })
		s.children[e.key] = e.row
	}
}

// apply applies a transaction.
func (m *cascadeModel) apply(at int) {
	if m.mutant == deriveFirst {
		for _, e := range m.log[at] {
			m.applyDerived(at, e)
		}
	}
	for _, e := range m.log[at] {
		if m.mutant != deriveFirst {
			m.applyDerived(at, e)
		}
		m.applyLogged(at, e)
	}
	m.say("transaction %d is applied: %v: the target is %v", at, m.log[at], m.target)
}

// copy reads each row through a separate view.
func (m *cascadeModel) copy() {
	view := func(start int) cascadeState {
		at := start + m.rnd.IntN(len(m.states)-start)/2
		m.lastView = max(m.lastView, at)
		m.say("a view at %d: %v", at, m.states[at])
		return m.states[at]
	}
	for p := range cascadeParents {
		if view(m.parents).parents[p] {
			m.target.parents[p] = true
		}
	}
	for k := range cascadeChildren {
		if row, ok := view(m.children).children[k]; ok {
			maps.DeleteFunc(m.target.children, func(_ int, r cascadeRow) bool { return r.unique >= 0 && r.unique == row.unique })
			m.target.children[k] = row
		}
		if child, ok := view(m.children).grand[k]; ok {
			m.target.grand[k] = child
		}
	}
}

// follow applies the log from the first start position, with kills.
func (m *cascadeModel) follow() error {
	at := min(m.parents, m.children)
	noted, reached := at, m.lastView
	for kills := 3; at < len(m.log); {
		m.apply(at)
		at++
		reached = max(reached, at)
		if m.rnd.IntN(2) == 0 {
			noted = at
		}
		if kills > 0 && m.rnd.IntN(8) == 0 {
			kills--
			at = noted
			m.say("the run is killed; the next one starts at %d", at)
			continue
		}
		if at >= reached && !m.target.equal(m.states[at]) {
			return fmt.Errorf("%w at %d: it has %v, the target %v", errViewLoss, at, m.states[at], m.target)
		}
	}
	return nil
}

func playCascades(seed uint64, mutant cascadeMutant) (*cascadeModel, error) {
	empty := cascadeState{make(map[int]bool), make(map[int]cascadeRow), make(map[int]int)}
	m := &cascadeModel{rnd: rand.New(rand.NewPCG(seed, 1)), mutant: mutant, target: empty.clone()}
	now := empty
	m.states = append(m.states, now.clone())
	for range 24 {
		m.log = append(m.log, m.write(now))
		m.states = append(m.states, now.clone())
	}
	m.parents = m.rnd.IntN(7)
	m.children = m.parents + m.rnd.IntN(4)
	if mutant == lateParents {
		m.parents, m.children = m.children, m.parents
	}
	m.lastView = max(m.parents, m.children)
	m.copy()
	return m, m.follow()
}

// TestCascadeModel checks that random histories end with the source's rows.
func TestCascadeModel(t *testing.T) {
	first := testseed.New(t)
	for i := range 4 * histories() {
		if m, err := playCascades(first+i, noCascadeMutant); err != nil {
			t.Fatalf("history %d: %v\n%s", first+i, err, strings.Join(m.trace, "\n"))
		}
	}
}

// TestCascadeModelMutants checks that the model finds a loss wherever the reasoning is changed, and where
// keys are derived that the copier refuses.
func TestCascadeModelMutants(t *testing.T) {
	first := testseed.New(t)
	for _, mutant := range []cascadeMutant{notDerived, deriveUnchecked, deriveFirst, deriveEarly, lateParents, writeUnchecked, deriveUpdates, deriveChains} {
		t.Run(string(mutant), func(t *testing.T) {
			mustLose(t, first, errViewLoss, func(seed uint64) ([]string, error) {
				m, err := playCascades(seed, mutant)
				return m.trace, err
			})
		})
	}
}
