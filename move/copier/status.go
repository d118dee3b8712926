package copier

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/throttle"
	"github.com/taredb/tare/internal/mysql/session"
)

// A monitor has the status of a run, and what requests to it change.
type monitor struct {
	*job
	started time.Time
	control *controlled

	mu      sync.Mutex
	phase   telemetry.RunPhase
	servers []string   // identities of both sides
	rows    *rowsPhase // nil before it starts

	// nil while nothing is followed, or compared.
	finish    func() // stops following once the target has caught up
	following func() *telemetry.FollowStatus
	verifying func() *telemetry.VerifyStatus
}

// setPhase sets the phase of the run.
func (m *monitor) setPhase(p telemetry.RunPhase) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.phase = p
}

// copies sets the phase that copies the rows.
func (m *monitor) copies(p *rowsPhase) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.phase, m.rows = telemetry.RunCopying, p
}

// compares sets the function that returns the progress of a comparison.
func (m *monitor) compares(progress func() *telemetry.VerifyStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.verifying = progress
}

// status returns the status of a run in progress.
func (m *monitor) status() telemetry.Status {
	s := telemetry.Status{
		Version: telemetry.StatusVersion, PID: os.Getpid(), From: m.from.Addr(), To: m.o.To.Addr, Started: m.started,
		Tables: []telemetry.TableStatus{}, Throttle: m.pacer.Status(), Waits: m.o.waits.Status(),
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Phase, s.Servers = m.phase, m.servers
	for _, t := range m.tables {
		s.Tables = append(s.Tables, telemetry.TableStatus{
			Source: t.Spec.Source(), Target: t.Spec.Target(), Phase: string(tabledef.Copying), RowsEstimate: t.Source.RowsEstimate,
		})
	}
	if m.rows != nil {
		s.Progress = m.rows.progress()
		for i := range s.Tables {
			m.rows.show(i, &s.Tables[i])
		}
	}
	if m.following != nil {
		s.Follow = m.following()
	}
	if m.verifying != nil {
		s.Verify = m.verifying()
	}
	if m.o.Swap != nil {
		s.Alter = m.o.Swap.Status()
	}
	return s
}

// A controlled is a copy as its control socket sees it. It outlives the runs that a lost lease ends: requests that
// arrive between two runs apply to the next one.
type controlled struct {
	path   string          // empty: none
	socket *control.Socket // instead of one at path; nil: none
	abort  func()          // stops the copy

	mu        sync.Mutex
	run       *monitor           // nil between two runs
	last      telemetry.Status   // of the previous run
	finishing telemetry.RunPhase // the phase to finish, in this run or a later one; empty: none
	end       func(error)        // closes the socket; nil before the first run
}

// openSocket returns the open control socket of a part of a split, or of the command of a swap, which serves it itself; nil: there is none.
func (o *Options) openSocket() *control.Socket {
	if o.part != nil {
		return o.part.socket
	}
	if s, ok := o.Swap.(interface{ ControlSocket() *control.Socket }); ok {
		return s.ControlSocket()
	}
	return nil
}

// attach directs requests to a run. The first call opens the socket.
func (c *controlled) attach(r *monitor) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run = r
	if c.end != nil {
		return nil
	}
	all := control.Controlled{
		Status: c.status, Change: c.change, Abort: c.abort, Finish: c.finish, Observe: r.o.Observe,
	}
	if s := r.o.Swap; s != nil {
		all.Proceed, all.Revert = s.Proceed, s.Revert
	}
	var err error
	switch {
	case c.socket != nil:
		c.socket.Use(&all)
		c.end = func(error) { c.socket.Use(nil) }
	case c.path != "":
		c.end, err = control.Serve(c.path, all)
	}
	return err
}

// detach stops directing requests to the run, before it is closed.
func (c *controlled) detach() {
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
func (c *controlled) close(result error) {
	c.mu.Lock()
	end := c.end
	c.mu.Unlock()
	if end != nil {
		end(result)
	}
}

func (c *controlled) status() telemetry.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil {
		return c.last
	}
	return c.run.status()
}

func (c *controlled) change(change throttle.LimitChange) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil {
		return control.ErrBetweenRuns
	}
	return c.run.pacer.SetLimits(change)
}

func (c *controlled) finish() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil {
		return control.ErrBetweenRuns
	}
	phase, err := c.run.requestFinish()
	if err == nil {
		c.finishing = phase
	}
	return err
}

// finishes reports whether a finish was requested for a phase.
func (c *controlled) finishes(phase telemetry.RunPhase) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.finishing == phase
}

// requestFinish stops following once the target has caught up. It returns the phase that this finishes.
func (m *monitor) requestFinish() (telemetry.RunPhase, error) {
	m.mu.Lock()
	finish, phase := m.finish, m.phase
	m.mu.Unlock()
	switch {
	case m.o.Swap != nil:
		return phase, m.o.Swap.Finish()
	case finish != nil:
	case m.o.Follow:
		return "", control.ErrNotYet
	default:
		return "", control.ErrNotFollowing
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
func (m *monitor) watch(f stream, phase telemetry.RunPhase) {
	m.mu.Lock()
	m.finish, m.following, m.phase = f.Finish, f.Status, phase
	m.mu.Unlock()
	if m.control.finishes(phase) {
		f.Finish()
	}
}

// unequal returns the number of rows known to differ.
func (m *monitor) unequal() int {
	m.mu.Lock()
	verifying := m.verifying
	m.mu.Unlock()
	if verifying == nil {
		return 0
	}
	return verifying().Mismatches
}

// identify records the identities of both sides for the status.
func (m *monitor) identify(ctx context.Context) error {
	target, err := session.ServerIdentity(ctx, m.to)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.servers = []string{m.source}
	if target != m.source {
		m.servers = append(m.servers, target)
	}
	return nil
}
