package copier

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

var modelRounds = flag.Int("model.rounds", 4000, "histories that TestStateModel plays for the protocol, and at most for each mutant; the other models play multiples of them, with -short half as many")

// histories is how many histories are played for a protocol.
func histories() uint64 {
	if testing.Short() {
		return uint64(*modelRounds) / 2
	}
	return uint64(*modelRounds)
}

// This model shows what keeps a copy exact through kills: the state in the target, the runs that write it,
// and a target that executes their statements at arbitrary times. The decisions are those of the program
// (machine, progress, contiguous). Statements are closures over a store without row locks, so more
// interleavings are possible than in a server. Random events:
//
//   - A run is killed at any time. Each of its sessions may have a statement in flight, which executes at
//     any later time or never. A transaction whose COMMIT was not sent is rolled back.
//   - The named lock is lost while its run and the run's other sessions live, and another run starts.
//   - The target is restarted at any time, with a prefix of its commits.
//   - Each run cuts chunks of another size, as when estimates have changed.
//
// The last run is not disturbed. Then every row of the source must be in the target.

// A mutant omits a part of the protocol.
type mutant string

const (
	noMutant mutant = ""
	noEpoch  mutant = "transactions do not check the epoch"
	noLease  mutant = "new connections do not check the holder"
	// The copier before it had epochs: with all delayed statements, and with delayed records of chunks only.
	noFence    mutant = "no epoch, no holder, bounds that are recorded already are kept"
	lateBounds mutant = "no epoch, bounds that are recorded already are kept"
	lateFollow mutant = "a position is recorded before its changes"
)

// has reports whether a mutant omits a part; noFence implies the checks of bounds.
func (m mutant) has(part mutant) bool {
	switch m {
	case noFence:
		return true
	case lateBounds:
		return part == noEpoch || part == noFence
	}
	return m == part
}

const modelKeys = 24 // rows of the source, before changes

// A modelStore is the target: its rows and the state. It is a value, so that it can be saved and restored.
type modelStore struct {
	rows   map[int]int // key to version
	chunks []tabledef.RecordedChunk
	known  bool // copy_table has a row
	phase  tabledef.Phase
	start  int // position of the first snapshot
	upto   int // of copy_follow; -1: none
	epoch  int
}

func (s modelStore) clone() modelStore {
	s.rows, s.chunks = maps.Clone(s.rows), slices.Clone(s.chunks)
	return s
}

// A modelStatement is a transaction whose COMMIT is in flight, or a single statement in flight. run has the
// epoch.
type modelStatement struct {
	run  *modelRun
	what string
	do   func(*modelStore) error
}

type model struct {
	rnd     *rand.Rand
	mutant  mutant
	changes []int // the source's log: the key that each change gives its next version
	now     int   // length of the log so far
	store   modelStore
	commits []modelStore // since the last restart of the target: states that a restart may restore
	late    []modelStatement
	holder  *modelRun // of the named lock
	epochs  int
	trace   []string
}

func (m *model) say(format string, a ...any) { m.trace = append(m.trace, fmt.Sprintf(format, a...)) }

// source is the rows of the source at a position.
func (m *model) source(at int) map[int]int {
	rows := make(map[int]int, modelKeys)
	for k := range modelKeys {
		rows[k] = 1
	}
	for _, k := range m.changes[:at] {
		rows[k]++
	}
	return rows
}

var (
	errModelDead = errors.New("the run is over")
	errModelLoss = errors.New("the last run has ended well, and rows differ")
)

// execute executes a statement now: atomically, with the epoch checked under its lock.
func (m *model) execute(s modelStatement) error {
	if s.run.epoch != m.store.epoch && !m.mutant.has(noEpoch) {
		return state.ErrLeaseLost
	}
	next := m.store.clone()
	if err := s.do(&next); err != nil {
		return err
	}
	m.store = next
	m.commits = append(m.commits, next)
	m.say("run %d: %s", s.run.number, s.what)
	return nil
}

// delay lets a statement execute later or never.
func (m *model) delay(s modelStatement) {
	if m.mutant == lateBounds && !strings.HasPrefix(s.what, "cut") {
		return
	}
	m.late = append(m.late, s)
}

// disturb applies a random event between two statements.
func (m *model) disturb() {
	if m.now < len(m.changes) && m.rnd.IntN(2) == 0 {
		m.now++
	}
	if n := len(m.late); n > 0 && m.rnd.IntN(6) == 0 {
		i := m.rnd.IntN(n)
		s := m.late[i]
		m.late = slices.Delete(m.late, i, i+1)
		if err := m.execute(s); err != nil {
			m.say("run %d, late: %s: %v", s.run.number, s.what, err)
		}
	}
}

// restart restores a prefix of the target's commits. No statement and no lock survives it.
func (m *model) restart() {
	back := min(len(m.commits)-1, m.rnd.IntN(4))
	m.commits = m.commits[:len(m.commits)-back]
	m.store = m.commits[len(m.commits)-1].clone()
	m.late, m.holder = nil, nil
	m.say("the target is restarted and has lost %d commits", back)
}

// A modelRun is one run: its view of the state, and its writers.
type modelRun struct {
	m      *model
	number int
	epoch  int
	size   int // of a chunk
	quiet  bool
	left   int // statements until it is killed

	machine *machine
	view    map[int]int // the snapshot
	at      int         // its position
}

// send sends a statement of a writer to the target. The run may be killed with it in flight, its connection
// may be lost, and the target may be restarted.
func (r *modelRun) send(what string, do func(*modelStore) error) error {
	m := r.m
	s := modelStatement{r, what, do}
	for {
		m.disturb()
		if r.quiet {
			return m.execute(s)
		}
		if r.left--; r.left < 0 {
			if m.rnd.IntN(3) > 0 {
				m.delay(s)
			}
			if m.holder == r {
				m.holder = nil
			}
			m.say("run %d is killed: %s", r.number, what)
			return errModelDead
		}
		switch n := m.rnd.IntN(14); {
		default:
			return m.execute(s)
		case n == 0 && m.mutant != lateBounds: // restarted before the statement is executed, or after it and before its response
			done := m.rnd.IntN(2) == 0 && m.execute(s) == nil
			m.restart()
			if !m.mutant.has(noLease) {
				return state.ErrLeaseLost
			}
			if done && r.isDone(what) {
				return nil
			}
		case n == 1:
			if m.holder == r && m.rnd.IntN(4) == 0 { // the lock's session is killed; the run does not notice
				m.holder = nil
				m.say("run %d loses its lock", r.number)
			}
		}
	}
}

// isDone is the query of a writer after a lost connection: whether its chunk is copied.
func (r *modelRun) isDone(what string) bool {
	var n int
	if _, err := fmt.Sscanf(what, "copy %d", &n); err != nil {
		return false
	}
	return n < len(r.m.store.chunks) && r.m.store.chunks[n].Copied
}

func modelKey(k int) mysqlwire.TextRow { return mysqlwire.TextRow{fmt.Appendf(nil, "%d", k)} }

func keyNumber(key mysqlwire.TextRow, none int) (n int) {
	if key == nil {
		return none
	}
	_, _ = fmt.Sscan(string(key[0]), &n)
	return n
}

// play executes a run from start to end.
func (m *model) play(number int, quiet bool) error {
	r := &modelRun{m: m, number: number, size: 1 + m.rnd.IntN(9), quiet: quiet, left: m.rnd.IntN(30)}
	m.holder = r
	m.epochs++
	r.epoch = m.epochs
	m.store.epoch = r.epoch
	m.commits = append(m.commits, m.store.clone())
	m.say("run %d starts, chunks of %d", number, r.size)
	if err := r.prepare(); err != nil {
		return err
	}
	if err := r.copy(); err != nil {
		return err
	}
	return r.follow()
}

// prepare reads the state and takes a snapshot.
func (r *modelRun) prepare() error {
	m := r.m
	known := m.store.known
	t := tabledef.Table{Spec: &tabledef.Spec{}, State: &tabledef.Recorded{Phase: tabledef.Copying, Chunks: slices.Clone(m.store.chunks)}}
	if known {
		t.State.Phase = m.store.phase
		if err := state.Contiguous(t.State.Chunks, t.State.Phase != tabledef.Copying); err != nil && !m.mutant.has(noFence) {
			return err
		}
	}
	m.disturb()
	r.at, r.view = m.now, m.source(m.now)
	if !known {
		if err := r.send("begin", func(s *modelStore) error {
			if len(s.rows) > 0 {
				return state.ErrState
			}
			s.known, s.phase, s.start, s.upto, s.chunks = true, tabledef.Copying, r.at, -1, nil
			return nil
		}); err != nil {
			return err
		}
	}
	progress, _ := progressOf(&t)
	r.machine = newMachine([]tableProgress{progress}, 2)
	return nil
}

// copy executes the machine's steps, those of two workers in any order.
func (r *modelRun) copy() error {
	var running []step
	for {
		if len(running) < 2 && (len(running) == 0 || r.m.rnd.IntN(2) == 0) {
			s := r.machine.next()
			if s.do == stop && len(running) == 0 {
				return nil
			}
			if s.do != stop && s.do != wait {
				running = append(running, s)
				continue
			}
		}
		i := r.m.rnd.IntN(len(running))
		s := running[i]
		running = slices.Delete(running, i, i+1)
		if err := r.do(s); err != nil {
			for _, other := range running { // their statements are in flight too
				if errors.Is(err, errModelDead) && r.m.rnd.IntN(2) == 0 {
					r.lateStep(other)
				}
			}
			return err
		}
	}
}

func (r *modelRun) lateStep(s step) {
	if what, do := r.statement(&s); do != nil {
		r.m.delay(modelStatement{r, what, do})
	}
}

// statement returns the statement that a step sends.
func (r *modelRun) statement(s *step) (what string, do func(*modelStore) error) {
	switch s.do {
	case cutChunk:
		c := r.machine.tables[0].next
		if end := keyNumber(c.After, -1) + r.size; end < modelKeys-1 {
			c.Upto = modelKey(end)
		}
		s.chunk = c
		return fmt.Sprintf("cut %d (%d, %d]", c.Number, keyNumber(c.After, -1), keyNumber(c.Upto, modelKeys)), r.cut(c)
	case copyChunk:
		return fmt.Sprintf("copy %d (%d, %d]", s.chunk.Number, keyNumber(s.chunk.After, -1), keyNumber(s.chunk.Upto, modelKeys)), r.copied(s.chunk)
	case buildIndexes:
		return "finish", func(s *modelStore) error {
			if err := state.Contiguous(s.chunks, true); err != nil && !r.m.mutant.has(noFence) {
				return err
			}
			s.phase = tabledef.Finished
			return nil
		}
	}
	return "", nil
}

func (r *modelRun) do(s step) error {
	what, do := r.statement(&s)
	if err := r.send(what, do); err != nil {
		return err
	}
	switch s.do {
	case cutChunk:
		r.machine.wasCut(0, s.chunk, s.chunk.Upto == nil)
	case copyChunk:
		r.machine.wasCopied(0)
	case buildIndexes:
		r.machine.wasIndexed(0)
	}
	return nil
}

func (r *modelRun) cut(c rowstream.Chunk) func(*modelStore) error {
	return func(s *modelStore) error {
		if c.Number < len(s.chunks) {
			k := s.chunks[c.Number]
			if !r.m.mutant.has(noFence) && (k.Copied || state.EncodeKey(k.After) != state.EncodeKey(c.After) || state.EncodeKey(k.Upto) != state.EncodeKey(c.Upto)) {
				return state.ErrState
			}
			return nil
		}
		if c.Number > len(s.chunks) {
			return state.ErrState // the next run would miss a number
		}
		s.chunks = append(s.chunks, tabledef.RecordedChunk{Chunk: c})
		return nil
	}
}

func (r *modelRun) copied(c rowstream.Chunk) func(*modelStore) error {
	return func(s *modelStore) error {
		if c.Number >= len(s.chunks) || s.chunks[c.Number].Copied {
			return state.ErrState
		}
		for k := keyNumber(c.After, -1) + 1; k <= min(keyNumber(c.Upto, modelKeys), modelKeys-1); k++ {
			s.rows[k] = r.view[k]
		}
		s.chunks[c.Number].Copied = true
		return nil
	}
}

// follow applies the source's changes with two writers, as applyParts does: the first one records the
// position before the batch.
func (r *modelRun) follow() error {
	m := r.m
	from := m.store.upto
	if from < 0 {
		from = m.store.start
	}
	for {
		if r.quiet {
			m.now = len(m.changes)
		}
		end := min(m.now, from+1+m.rnd.IntN(4))
		if end <= from && r.quiet {
			return nil
		}
		last := m.source(end)
		for part := range 2 {
			note := from
			if m.mutant == lateFollow {
				note = end
			}
			if err := r.send(fmt.Sprintf("apply [%d, %d) part %d", from, end, part), func(s *modelStore) error {
				for _, k := range m.changes[from:end] {
					if k%2 == part {
						s.rows[k] = last[k]
					}
				}
				if part == 0 {
					s.upto = note
				}
				return nil
			}); err != nil {
				return err
			}
		}
		from = end
	}
}

// history plays runs until one was not disturbed, and returns an error if rows are lost then.
func (m *model) history(rounds int) error {
	m.store = modelStore{rows: make(map[int]int), upto: -1}
	m.commits = []modelStore{m.store.clone()}
	for n := range rounds {
		if err := m.play(n, false); err != nil {
			m.say("run %d: %v", n, err)
		}
		m.holder = nil
	}
	for n := rounds; ; n++ { // run again as an error advises: delayed statements may end a run, and their number is limited
		err := m.play(n, true)
		m.holder = nil
		if err == nil {
			break
		}
		m.say("run %d: %v", n, err)
		if n > rounds+40 {
			return fmt.Errorf("stuck: %w", err)
		}
	}
	want := m.source(len(m.changes))
	if !maps.Equal(want, m.store.rows) {
		return fmt.Errorf("%w: the source has %v, the target %v", errModelLoss, want, m.store.rows)
	}
	return nil
}

func playModel(seed uint64, mutant mutant) (*model, error) {
	m := &model{rnd: rand.New(rand.NewPCG(seed, 1)), mutant: mutant, changes: make([]int, 20)}
	for i := range m.changes {
		m.changes[i] = m.rnd.IntN(modelKeys)
	}
	return m, m.history(1 + m.rnd.IntN(4))
}

// mustLose plays histories from a seed on until one ends with the given loss.
func mustLose(t *testing.T, first uint64, loss error, play func(seed uint64) (trace []string, err error)) {
	t.Helper()
	for i := range 20 * uint64(*modelRounds) {
		trace, err := play(first + i)
		if errors.Is(err, loss) {
			t.Logf("history %d, the %dth: %v\n%s", first+i, i+1, err, strings.Join(trace, "\n"))
			return
		}
	}
	t.Error("no history lost a row")
}

// TestStateModel checks that random histories lose no row.
func TestStateModel(t *testing.T) {
	first := testseed.New(t)
	for i := range uint64(*modelRounds) {
		if m, err := playModel(first+i, noMutant); err != nil {
			t.Fatalf("history %d: %v\n%s", first+i, err, strings.Join(m.trace, "\n"))
		}
	}
}

// TestStateModelMutants checks that the model finds a loss wherever a part of the protocol is omitted.
func TestStateModelMutants(t *testing.T) {
	first := testseed.New(t)
	for _, mutant := range []mutant{noFence, lateBounds, noEpoch, noLease, lateFollow} {
		t.Run(string(mutant), func(t *testing.T) {
			mustLose(t, first, errModelLoss, func(seed uint64) ([]string, error) {
				m, err := playModel(seed, mutant)
				return m.trace, err
			})
		})
	}
}
