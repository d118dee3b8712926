package copier

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/verify"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// A Swap gives the target's table the name of the source's, in the server that has both. It takes the place of a cutover: clients stay
// where they are.
//
//	caught up ──> all rows are equal ──> Swap.Run: lock ──> Swapping.Reach ──> RENAME ──> following ends
//
// A Swap knows how the server locks and renames; the copy knows when the target has all changes. Its methods besides Run are called by several
// goroutines.
type Swap interface {
	// Run swaps the tables. It is called once the target has caught up, and with Options.Verify once all rows are equal.
	Run(ctx context.Context, s *Swapping) error

	// Phase returns the phase in which the copy follows changes: telemetry.RunReversing if it is the way back of a swap.
	Phase() telemetry.RunPhase

	// Status returns the state of the ALTER TABLE that the copy is a part of; nil: there is none.
	Status() *telemetry.AlterStatus

	// Proceed, Revert and Finish are requests over the control socket: to swap now; to swap back now, even if something is lost; to give the
	// way back up. They return ErrNotSwapped and ErrSwaps before a swap.
	Proceed() error
	Revert(lossy bool) error
	Finish() error
}

// A Swapping is a copy whose target has caught up, as a Swap uses it. It is for one goroutine.
type Swapping struct {
	job    *job
	verify *verifyPhase
	f      *follow.Follower
	frozen bool

	writer   *state.Writer    // of RaiseCounters; nil before its first call
	changing *verify.Changing // rows that are still to be compared; nil: none
}

// Reach blocks until the target has everything that is committed in the source, and suspends following until Thaw. The caller
// prevents further changes of the source's tables.
func (s *Swapping) Reach(ctx context.Context) error {
	p, err := s.job.from.CurrentPosition(ctx)
	if err != nil {
		return err
	}
	defer s.f.SuspendThrottle()() // clients wait: apply without throttling
	if err := s.f.CatchUp(ctx, p); err != nil {
		return fmt.Errorf("wait until the target has everything: %w", err)
	}
	boundary, err := s.f.Freeze(ctx)
	if err != nil {
		return fmt.Errorf("wait until the target has everything: %w", err)
	}
	s.frozen = true
	if !boundary {
		s.Thaw()
		return errors.New("a transaction of the source is applied in part")
	}
	return nil
}

// Position returns the position in the source's log up to which the target has everything, after Reach. It is known to replicas of the
// source too if the source has GTIDs.
func (s *Swapping) Position() (binlog.Position, error) {
	if !s.frozen {
		return binlog.Position{}, errors.New("the position of a copy that is following is not final")
	}
	return s.f.Applied(), nil
}

// CompareRows compares all rows, of a copy without Verify. It returns verify.ErrDiffer if some differ.
func (s *Swapping) CompareRows(ctx context.Context) error { return s.compareRows(ctx, nil) }

// CompareAgain compares the chunks again whose rows have changed since the comparison started. It returns verify.ErrDiffer if some differ.
func (s *Swapping) CompareAgain(ctx context.Context) error {
	changed := s.f.Changed()
	n, of := 0, 0
	for _, table := range changed {
		for _, is := range table {
			if of++; is {
				n++
			}
		}
	}
	if n == 0 {
		return nil
	}
	s.job.o.Observe(telemetry.Event{Kind: telemetry.EventAlter, Text: fmt.Sprintf("comparing %d of %d chunks again, whose rows have changed since they were compared", n, of)})
	return s.compareRows(ctx, changed)
}

// RaiseCounters raises the target's AUTO_INCREMENT counters to those of the source.
func (s *Swapping) RaiseCounters(ctx context.Context, limit time.Duration) error {
	if s.writer == nil {
		s.writer = s.job.newWriter()
	}
	return state.RaiseCounters(ctx, s.job.from, s.job.tables, s.writer, limit)
}

// Compare compares the rows that have changed in every comparison so far, after Reach. source is a connection with the Session settings,
// which may read the table.
func (s *Swapping) Compare(ctx context.Context, source *mysqlconn.Client) error {
	if s.changing == nil {
		return nil
	}
	if s.writer == nil {
		s.writer = s.job.newWriter()
	}
	if err := s.writer.Connect(ctx); err != nil {
		return err
	}
	if err := s.changing.Compare(ctx, source, s.writer.Conn); err != nil {
		return fmt.Errorf("compare the rows that changed in every comparison: %w", err)
	}
	s.decided()
	return nil
}

// decided records that the rows which changed in every comparison are equal.
func (s *Swapping) decided() {
	s.changing = nil
	for _, v := range s.verify.reports {
		v.Undecided = 0
	}
}

// Thaw resumes following after Reach.
func (s *Swapping) Thaw() {
	if s.frozen {
		s.f.Thaw()
		s.frozen = false
	}
}

// Lag returns by how much the target is known to lag, and false if that is unknown.
func (s *Swapping) Lag() (time.Duration, bool) {
	lag := s.f.Status().LagSeconds
	if lag == nil {
		return 0, false
	}
	return time.Duration(*lag * float64(time.Second)), true
}

// Err returns why following has ended; nil while changes are applied.
func (s *Swapping) Err() error { return s.f.Err() }

// verifyPasses is how often all rows are compared, where too many of them change in every comparison.
const verifyPasses = 5

// swap follows the source, compares the rows, and has the tables swapped.
func (p *handOverPhase) swap(ctx context.Context, f *follow.Follower, verify *verifyPhase) error {
	following, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &Swapping{job: p.job, verify: verify, f: f}
	var swapping sync.WaitGroup
	var failed error
	f.MayEnd = func() bool { return false }
	swapping.Go(func() {
		if failed = s.run(following); failed != nil {
			s.Thaw()
			cancel(endError{failed})
			return
		}
		if s.frozen {
			f.Seal()
		}
		f.End()
	})
	err := f.Run(following)
	cancel(nil) // swap may still wait for the target
	swapping.Wait()
	if s.writer != nil {
		s.writer.Close()
	}
	switch {
	case failed == nil: // the log may have shown the RENAME to the follower before it was stopped
		return nil
	case err == nil || errors.As(context.Cause(following), new(endError)):
		return failed
	}
	return err
}

// run compares the rows and swaps the tables.
func (s *Swapping) run(ctx context.Context) error {
	if err := s.f.WaitCaughtUp(ctx); err != nil {
		return err
	}
	if s.job.o.Verify {
		if err := s.compareRows(ctx, nil); err != nil {
			return err
		}
	}
	return s.job.o.Swap.Run(ctx, s)
}

// compareRows compares all rows, or those of some chunks. Those that change in every comparison remain to be compared by Swapping.Compare.
func (s *Swapping) compareRows(ctx context.Context, only [][]bool) error {
	o := s.verify.options()
	o.Only, o.Track = only, only == nil
	for pass := 1; ; pass++ {
		reports, changing, err := verify.NewFollowing(o, s.f).Pass(ctx)
		if err != nil {
			return fmt.Errorf("verify while following: %w", err)
		}
		if only == nil {
			s.verify.reports = reports
		}
		for _, v := range reports {
			if v.Mismatches() > 0 {
				return fmt.Errorf("%w: missing %d, only in the target %d, with other values %d, of %d rows; the tables are not swapped",
					verify.ErrDiffer, v.Missing, v.Extra, v.Changed, v.Rows)
			}
		}
		switch n, complete := changing.Rows(); {
		case n == 0 && complete: // also of the rows that changed in every comparison before, which are of these chunks
			s.decided()
			return nil
		case complete:
			s.changing = changing
			return nil
		case pass == verifyPasses:
			return fmt.Errorf("verify while following: more than %d rows changed in every comparison of %d passes, and are not known to be equal", n, pass)
		}
		s.job.o.Observe(telemetry.Event{Kind: telemetry.EventRetry, Text: "too many rows changed in every comparison: all are compared again"})
	}
}
