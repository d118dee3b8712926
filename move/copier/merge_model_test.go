package copier

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testseed"
)

// The model of a merge has two sources of one table with a primary key and a second unique key, neither of which has the clause's column. At each
// moment keys are unique over both sources, but rows move: a key that is deleted on one source is inserted on the other. Each part reads its rows
// at different moments, then applies the changes since its start in order, and may repeat some after a crash. A part that meets a
// row of the other source waits.
//
// A history ends with the rows of both sources, or with parts that wait for each other, which is refused. It never ends with other rows, and
// no part removes a row of the other.

// errMergeLoss is the error of a history that has lost or kept a row wrongly.
var errMergeLoss = errors.New("the target does not have the rows of both sources")

// A mergeMutant changes the reasoning.
type mergeMutant string

const (
	noMergeMutant    mergeMutant = ""
	replaceAll       mergeMutant = "rows are replaced, whoever has them"
	deleteAll        mergeMutant = "keys are deleted, whoever has them"
	skipDuplicates   mergeMutant = "a row whose key the other source has is skipped"
	deleteBeforeOnly mergeMutant = "a moved row is deleted by its new key"
)

// A mergeRow is a row, without its primary key.
type mergeRow struct{ u, source int }

// A mergeChange is a change of a row in the log of a source; a row of the source -1 is missing.
type mergeChange struct {
	before, after       int // primary keys
	rowBefore, rowAfter mergeRow
}

// A mergeModel is one history.
type mergeModel struct {
	rnd    *rand.Rand
	mutant mergeMutant
	logs   [2][]mergeChange
	states [2][]map[int]mergeRow // after each change
	target map[int]mergeRow
	trace  []string
}

func (m *mergeModel) note(format string, a ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, a...))
}

// write executes changes on both sources.
func (m *mergeModel) write(n int) {
	now := [2]map[int]mergeRow{make(map[int]mergeRow), make(map[int]mergeRow)}
	none := mergeRow{source: -1}
	taken := func(u, except int) bool {
		for s := range now {
			for id, row := range now[s] {
				if row.u == u && id != except {
					return true
				}
			}
		}
		return false
	}
	for s := range m.states {
		m.states[s] = append(m.states[s], maps.Clone(now[s]))
	}
	for range n {
		s, id, u := m.rnd.IntN(2), m.rnd.IntN(5), m.rnd.IntN(5)
		row, own := now[s][id]
		_, others := now[1-s][id]
		c := mergeChange{before: id, after: id, rowBefore: none, rowAfter: mergeRow{u, s}}
		switch to := m.rnd.IntN(5); {
		case own && m.rnd.IntN(2) == 0:
			c.rowBefore, c.rowAfter = row, none
			delete(now[s], id)
		case others || taken(u, id):
			continue
		case own && m.rnd.IntN(2) == 0: // the row gets another primary key
			if _, exists := now[s][to]; exists {
				continue
			}
			if _, exists := now[1-s][to]; exists {
				continue
			}
			delete(now[s], id)
			c.rowBefore, c.after = row, to
			now[s][to] = c.rowAfter
		default:
			if own {
				c.rowBefore = row
			}
			now[s][id] = c.rowAfter
		}
		m.logs[s] = append(m.logs[s], c)
		m.states[s] = append(m.states[s], maps.Clone(now[s]))
		m.note("source %d: %d%v to %d%v", s, c.before, c.rowBefore, c.after, c.rowAfter)
	}
}

// put writes a row of a source, and reports false if it conflicts with one of the other.
func (m *mergeModel) put(s, id int, row mergeRow) bool {
	for other, there := range m.target {
		if other != id && there.u != row.u {
			continue
		}
		if there.source == s || m.mutant == replaceAll {
			continue
		}
		return m.mutant == skipDuplicates
	}
	for other, there := range m.target {
		if other == id || there.u == row.u {
			delete(m.target, other)
		}
	}
	m.target[id] = row
	return true
}

// apply applies a change of a source, and reports false if it must wait.
func (m *mergeModel) apply(s int, c mergeChange) bool {
	before := maps.Clone(m.target)
	if c.rowBefore.source >= 0 {
		id := c.before
		if m.mutant == deleteBeforeOnly {
			id = c.after
		}
		if m.target[id].source == s || m.mutant == deleteAll {
			delete(m.target, id)
		}
	}
	if c.rowAfter.source >= 0 && !m.put(s, c.after, c.rowAfter) {
		m.target = before // rolled back
		return false
	}
	return true
}

// run copies and follows. It reports whether all changes were applied.
func (m *mergeModel) run() (done bool, err error) {
	m.target = make(map[int]mergeRow)
	var next, recorded [2]int // changes of the log
	var unread [2][]int       // primary keys
	for s := range next {
		next[s] = m.rnd.IntN(len(m.logs[s]) + 1)
		recorded[s], unread[s] = next[s], m.rnd.Perm(5)
	}
	for range 2000 { // many more steps than a history without a conflict has
		s := m.rnd.IntN(2)
		others := m.count(1 - s)
		switch {
		case len(unread[s]) > 0:
			id := unread[s][0]
			at := next[s] + m.rnd.IntN(len(m.states[s])-next[s])
			row, exists := m.states[s][at][id]
			if exists && !m.put(s, id, row) {
				continue
			}
			unread[s] = unread[s][1:]
			m.note("part %d: row %d as of change %d", s, id, at)
		case next[s] == len(m.logs[s]):
			if len(unread[1-s]) == 0 && next[1-s] == len(m.logs[1-s]) {
				return true, m.equal()
			}
			continue
		case next[s] > recorded[s] && m.rnd.IntN(10) == 0:
			next[s] = recorded[s]
			m.note("part %d: crash, resumes at %d", s, next[s])
		default:
			if !m.apply(s, m.logs[s][next[s]]) {
				continue
			}
			m.note("part %d: change %d", s, next[s])
			if next[s]++; m.rnd.IntN(3) > 0 {
				recorded[s] = next[s]
			}
		}
		if now := m.count(1 - s); now != others {
			return false, fmt.Errorf("%w: part %d has changed the rows of the other", errMergeLoss, s)
		}
	}
	return false, nil
}

// count returns the number of a source's rows in the target.
func (m *mergeModel) count(source int) (n int) {
	for _, row := range m.target {
		if row.source == source {
			n++
		}
	}
	return n
}

// equal returns an error unless the target has the rows of both sources.
func (m *mergeModel) equal() error {
	want := maps.Clone(m.states[0][len(m.states[0])-1])
	maps.Copy(want, m.states[1][len(m.states[1])-1])
	if !maps.Equal(want, m.target) {
		return fmt.Errorf("%w: %v instead of %v", errMergeLoss, m.target, want)
	}
	return nil
}

func playMerge(seed uint64, mutant mergeMutant) (m *mergeModel, done bool, err error) {
	m = &mergeModel{rnd: rand.New(rand.NewPCG(seed, 1)), mutant: mutant}
	m.write(40)
	done, err = m.run()
	return m, done, err
}

// TestMergeModel checks that random histories end with the rows of both sources, or wait.
func TestMergeModel(t *testing.T) {
	first, ended := testseed.New(t), 0
	rounds := 2 * histories()
	for i := range rounds {
		m, done, err := playMerge(first+i, noMergeMutant)
		if err != nil {
			t.Fatalf("history %d: %v\n%s", first+i, err, strings.Join(m.trace, "\n"))
		}
		if done {
			ended++
		}
	}
	if t.Logf("%d of %d histories ended", ended, rounds); ended == 0 {
		t.Error("no history ended")
	}
}

// TestMergeModelMutants checks that the model finds a loss wherever the reasoning is changed.
func TestMergeModelMutants(t *testing.T) {
	first := testseed.New(t)
	for _, mutant := range []mergeMutant{replaceAll, deleteAll, skipDuplicates, deleteBeforeOnly} {
		t.Run(string(mutant), func(t *testing.T) {
			mustLose(t, first, errMergeLoss, func(seed uint64) ([]string, error) {
				m, _, err := playMerge(seed, mutant)
				return m.trace, err
			})
		})
	}
}
