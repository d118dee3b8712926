package copier_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

func leaseSpecs(names ...string) (specs []*tabledef.Spec) {
	for _, name := range names {
		s := &tabledef.Spec{Schema: "lease", Name: name}
		s.Defaults()
		specs = append(specs, s)
	}
	return specs
}

// acquire acquires a lease over a new connection.
func (p *pair) acquire(t *testing.T, names ...string) (*state.Lease, *mysqlconn.Client, error) {
	t.Helper()
	c := connect(t, root(p.to))
	l, err := state.AcquireLease(t.Context(), c, state.State{Schema: state.DefaultStateSchema}, leaseSpecs(names...), time.Second)
	return l, c, err
}

// awaitStatement waits until a server executes a statement that contains text.
func awaitStatement(t *testing.T, c *mysqlconn.Client, text string) {
	t.Helper()
	testwait.Until(t, "a statement with "+text+" executes", func() bool {
		return len(read(t, c, "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND INFO LIKE '%"+text+"%'")) > 0
	})
}

// TestLease has a second run take over one of the tables of a first run whose lease session was killed and
// whose writers are alive.
func TestLease(t *testing.T) {
	p := newPair(t, "lease")
	first, holder, err := p.acquire(t, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.acquire(t, "b"); !errors.Is(err, state.ErrLocked) {
		t.Fatalf("two holders: %v", err)
	}
	writer := connect(t, root(p.to))
	if err := errors.Join(first.Confirm(t.Context(), writer), first.Check(t.Context(), writer)); err != nil {
		t.Fatal(err)
	}
	_ = holder.Close()
	testwait.Until(t, "the server notices that the holder is gone", func() bool { return first.Confirm(t.Context(), writer) != nil })

	// A transaction that has checked the epoch commits before another run gets the epoch.
	sqlExec(t, writer, "START TRANSACTION")
	if err := first.Check(t.Context(), writer); err != nil {
		t.Fatal(err)
	}
	var taking sync.WaitGroup
	var second *state.Lease
	var failed error
	taking.Go(func() { second, _, failed = p.acquire(t, "b", "c") })
	awaitStatement(t, p.target, "copy_epoch")
	sqlExec(t, writer, "COMMIT")
	testwait.Group(t, "the second run has taken the lease", &taking)
	if failed != nil {
		t.Fatal(failed)
	}

	// From then on no transaction of the first run commits, for any of its tables.
	if err := first.Write(t.Context(), writer, func() error { return nil }); !errors.Is(err, state.ErrLeaseLost) {
		t.Errorf("a run without its epoch: %v", err)
	}
	if err := second.Write(t.Context(), writer, func() error { return nil }); err != nil {
		t.Errorf("the run with the epoch: %v", err)
	}
	if err := first.Confirm(t.Context(), writer); !errors.Is(err, state.ErrLeaseLost) {
		t.Errorf("a holder that was replaced: %v", err)
	}
}

// TestLeaseIndexes checks that the index lock of a dead run delays the next one, whose error names the
// connection.
func TestLeaseIndexes(t *testing.T) {
	p := newPair(t, "lease")
	altering := connect(t, root(p.to))
	if err := state.LockIndexes(t.Context(), altering, leaseSpecs("a")[0], time.Second); err != nil {
		t.Fatal(err)
	}
	id := strings.Trim(read(t, altering, "SELECT CONNECTION_ID()")[0], `["]`)
	if _, _, err := p.acquire(t, "a"); !errors.Is(err, state.ErrLocked) || !strings.Contains(err.Error(), "KILL "+id) {
		t.Errorf("an ALTER TABLE under way: %v", err)
	}
}

// TestCutBounds records a chunk twice, with the same bounds and with others.
func TestCutBounds(t *testing.T) {
	p := newPair(t, "lease")
	l, c, err := p.acquire(t, "a")
	if err != nil {
		t.Fatal(err)
	}
	s := state.State{Schema: state.DefaultStateSchema, Lease: l}
	if err := s.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	k := rowstream.Chunk{Upto: mysqlwire.TextRow{[]byte("10")}}
	for range 2 {
		if err := s.Cut(t.Context(), c, l.First, k); err != nil {
			t.Fatal(err)
		}
	}
	other := rowstream.Chunk{Upto: mysqlwire.TextRow{[]byte("20")}}
	if err := s.Cut(t.Context(), c, l.First, other); !errors.Is(err, state.ErrState) {
		t.Errorf("other bounds: %v", err)
	}
	if err := s.SetPhase(t.Context(), c, l.First, tabledef.Finished, 1); !errors.Is(err, state.ErrState) {
		t.Errorf("a table whose chunk is not copied: %v", err)
	}
	if err := s.SetPhase(t.Context(), c, leaseSpecs("unknown")[0], tabledef.Finished, 1); !errors.Is(err, state.ErrState) {
		t.Errorf("the phase of a table that is not recorded: %v", err)
	}
	if err := s.StoppedBy(t.Context(), c, l.First, "ALTER TABLE a"); !errors.Is(err, state.ErrState) {
		t.Errorf("the stop of a table without a definition: %v", err)
	}
}

// TestHolderKilled kills the session of the lease, and the connection of a worker: the run acquires the lease
// again and resumes from the state.
func TestHolderKilled(t *testing.T) {
	p := newPair(t, "lease")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, c VARCHAR(20), KEY k (c))", "INSERT INTO a SELECT seq, CONCAT('row ', seq) FROM seq_1_to_3000", "ANALYZE TABLE a")
	o := p.options("a")
	o.Workers, o.ChunkBytes = 1, 8<<10
	var once sync.Once
	snapshots := 0
	o.Observe = func(e telemetry.Event) {
		if e.Kind == telemetry.EventSnapshot {
			snapshots++
		}
		if e.Kind == telemetry.EventChunk && e.Chunk == 2 {
			once.Do(func() { killCopy(t, p.target) })
		}
	}
	report, err := copier.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if a := report.Tables[0]; snapshots != 2 || a.Before < 3 {
		t.Errorf("%d snapshots, %+v", snapshots, a)
	}
	p.same(t, "a")
}
