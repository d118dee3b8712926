package copier

import (
	"os"
	"sync"
	"time"

	"github.com/taredb/tare/move/copier/tabledef"
	"github.com/taredb/tare/move/copier/telemetry"
	"github.com/taredb/tare/move/internal/follow"
	"github.com/taredb/tare/move/throttle"
)

// setPhase sets the phase of the run.
func (r *run) setPhase(p telemetry.RunPhase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = p
}

// status returns the status of a run in progress.
func (r *run) status() telemetry.Status {
	s := telemetry.Status{
		Version: telemetry.StatusVersion, PID: os.Getpid(), From: r.from.Addr(), To: r.o.To.Addr, Started: r.started,
		Tables: []telemetry.TableStatus{}, Throttle: r.pacer.Status(), Waits: r.o.waits.Status(),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Phase, s.Servers = r.phase, r.servers
	s.Progress = r.progress()
	for i, t := range r.tables {
		ts := telemetry.TableStatus{Source: t.Spec.Source(), Target: t.Spec.Target(), Phase: string(tabledef.Copying), RowsEstimate: t.Source.RowsEstimate}
		if r.machine != nil {
			m := &r.machine.tables[i]
			ts.Phase, ts.Rows, ts.Bytes, ts.Chunks, ts.ChunksCopied = string(m.phase), r.rows[i], r.bytes[i], m.chunks, m.done
			if c := r.count(i); c.Copied {
				ts.RowsEstimate, ts.RowsDeviation = c.Rows, new(int64)
			} else if c.Sampled {
				ts.RowsEstimate, ts.RowsDeviation = c.Estimate, &c.Deviation
			}
		}
		s.Tables = append(s.Tables, ts)
	}
	if r.following != nil {
		s.Follow = r.following()
	}
	if r.verifying != nil {
		s.Verify = r.verifying()
	}
	if r.o.Alter != nil {
		s.Alter = r.o.Alter()
	}
	return s
}

// A control is the control socket of a copy. It outlives the runs that a lost lease ends: requests that
// arrive between two runs apply to the next one.
type control struct {
	path   string  // empty: none
	socket *Socket // instead of one at path; nil: none
	abort  func()  // stops the copy

	mu        sync.Mutex
	run       *run               // nil between two runs
	last      telemetry.Status   // of the previous run
	finishing telemetry.RunPhase // the phase to finish, in this run or a later one; empty: none
	end       func(error)        // closes the socket; nil before the first run
}

// attach directs requests to a run. The first call opens the socket.
func (c *control) attach(r *run) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run = r
	if c.end != nil {
		return nil
	}
	all := controlled{
		status: c.status, change: c.change, abort: c.abort, finish: c.finish, proceed: r.o.Proceed, revert: r.o.Revert, observe: r.o.Observe,
	}
	var err error
	switch {
	case c.socket != nil:
		c.socket.use(&all)
		c.end = func(error) { c.socket.use(nil) }
	case c.path != "":
		c.end, err = serveControl(c.path, all)
	}
	return err
}

// detach stops directing requests to the run, before it is closed.
func (c *control) detach() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil {
		return
	}
	c.last = c.run.status()
	c.last.Phase = telemetry.RunPreparing
	c.run = nil
}

// close closes the socket after a copy with that result.
func (c *control) close(result error) {
	c.mu.Lock()
	end := c.end
	c.mu.Unlock()
	if end != nil {
		end(result)
	}
}

func (c *control) status() telemetry.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil {
		return c.last
	}
	return c.run.status()
}

func (c *control) change(change throttle.LimitChange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil {
		return errBetweenRuns
	}
	return c.run.pacer.SetLimits(change)
}

func (c *control) finish() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil {
		return errBetweenRuns
	}
	phase, err := c.run.requestFinish()
	if err == nil {
		c.finishing = phase
	}
	return err
}

// finishes reports whether a finish was requested for a phase.
func (c *control) finishes(phase telemetry.RunPhase) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.finishing == phase
}

// requestFinish stops following once the target has caught up. It returns the phase that this finishes.
func (r *run) requestFinish() (telemetry.RunPhase, error) {
	r.mu.Lock()
	finish, phase := r.finish, r.phase
	r.mu.Unlock()
	switch {
	case r.o.Finish != nil:
		return phase, r.o.Finish()
	case r.o.Swap != nil:
		return "", errSwaps
	case finish != nil:
	case r.o.Follow:
		return "", errNotYet
	default:
		return "", errNotFollowing
	}
	finish()
	return phase, nil
}

// A stream is the part of a Follower that commands and Status use while changes are followed.
type stream interface {
	Finish()
	Status() *telemetry.FollowStatus
}

var _ stream = (*follow.Follower)(nil)

// watch makes f the follower that commands and Status use. A finish that was requested in the same phase from an
// earlier follower, which lost its servers, applies to f too.
func (r *run) watch(f stream, phase telemetry.RunPhase) {
	r.mu.Lock()
	r.finish, r.following, r.phase = f.Finish, f.Status, phase
	r.mu.Unlock()
	if r.control.finishes(phase) {
		f.Finish()
	}
}

// progress returns the progress of copying rows; nil before it starts. r.mu must be locked.
func (r *run) progress() *telemetry.CopyProgress {
	if r.machine == nil {
		return nil
	}
	var rows, bytes int64
	counts := make([]telemetry.TableCount, len(r.tables))
	for i := range r.tables {
		counts[i] = r.count(i)
		rows += r.rows[i] - r.rowsBefore[i]
		bytes += r.bytes[i]
	}
	return telemetry.NewCopyProgress(counts, rows, bytes, time.Since(r.copying))
}
