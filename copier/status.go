package copier

import (
	"os"
	"sync"

	"github.com/taredb/tare/throttle"
)

// enter notes what the run is at.
func (r *run) enter(p RunPhase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = p
}

// status is what the run tells of itself while it is at work.
func (r *run) status() Status {
	s := Status{
		Version: StatusVersion, PID: os.Getpid(), From: r.from.Addr(), To: r.o.To.Addr, Started: r.started,
		Tables: []TableStatus{}, Throttle: r.pacer.Status(), Waits: r.o.waits.status(),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Phase = r.phase
	s.Progress = r.progress()
	for i, t := range r.tables {
		ts := TableStatus{Source: t.spec.source(), Target: t.spec.target(), Phase: string(copying), RowsEstimate: t.source.RowsEstimate}
		if r.machine != nil {
			m := &r.machine.tables[i]
			ts.Phase, ts.Rows, ts.Bytes, ts.Chunks, ts.ChunksCopied = string(m.phase), r.rows[i], r.bytes[i], m.chunks, m.done
		}
		s.Tables = append(s.Tables, ts)
	}
	if r.following != nil {
		s.Follow = r.following()
	}
	if r.verifying != nil {
		s.Verify = r.verifying()
	}
	return s
}

// A control is the control socket of a copy. It outlives the runs that a lost lease ends: commands that
// arrive between two runs are for the next one.
type control struct {
	path  string // "": there is none
	abort func() // ends the copy

	mu        sync.Mutex
	run       *run     // nil between two runs
	last      Status   // of the run before
	finishing RunPhase // to be ended by finish, in this run or a later one; empty: none
	end       func()   // of the socket; nil before the first run
}

// attach directs commands to a run. The first run opens the socket.
func (c *control) attach(r *run) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run = r
	if c.path == "" || c.end != nil {
		return nil
	}
	end, err := serveControl(c.path, controlled{status: c.status, change: c.change, abort: c.abort, finish: c.finish, observe: r.o.Observe})
	c.end = end
	return err
}

// detach ends the commands to the run, before it is closed.
func (c *control) detach() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil {
		return
	}
	c.last = c.run.status()
	c.last.Phase = RunPreparing
	c.run = nil
}

func (c *control) close() {
	c.mu.Lock()
	end := c.end
	c.mu.Unlock()
	if end != nil {
		end()
	}
}

func (c *control) status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil {
		return c.last
	}
	return c.run.status()
}

func (c *control) change(change throttle.Change) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil {
		return errBetweenRuns
	}
	return c.run.pacer.Change(change)
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
func (c *control) finishes(phase RunPhase) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.finishing == phase
}

// requestFinish ends following once the target has what the source has. It returns the phase that it ends.
func (r *run) requestFinish() (RunPhase, error) {
	r.mu.Lock()
	finish, phase := r.finish, r.phase
	r.mu.Unlock()
	switch {
	case finish != nil:
	case r.o.Follow:
		return "", errNotYet
	default:
		return "", errNotFollowing
	}
	finish()
	return phase, nil
}

// watch makes a follower the one that commands and Status are about. A finish that was requested of a follower
// before it in the same phase, which lost its servers, is for this one.
func (r *run) watch(f *follower, phase RunPhase) {
	r.mu.Lock()
	r.finish, r.following, r.phase = f.Finish, f.status, phase
	r.mu.Unlock()
	if r.control.finishes(phase) {
		f.Finish()
	}
}
