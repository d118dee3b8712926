package cutover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// HandoverOptions configure a Handover.
type HandoverOptions struct {
	Source mysqlconn.Config // account that locks the tables and makes the source read-only
	Tables []tabledef.Spec  // the source's tables

	Lag      time.Duration // maximum lag of each target when writes are stopped
	MaxPause time.Duration // maximum time for which a try stops writes; 0: DefaultMaxPause
	Tries    int           // 0: DefaultTries
	Patience time.Duration // how long to wait for an unreachable server

	Observe func(telemetry.Event)
}

// A Handover ends the copies of the parts of a source's tables to several targets at one position. No gateway routes
// statements to several targets, so clients are not switched: the source becomes read-only, and its clients are then
// to be started with the targets.
//
// A try locks the tables at the source against writes, which waits for open transactions that have written to them. Each
// target applies everything before a heartbeat that is written under the lock, and following is suspended there. All
// targets record that a handover is in progress. Then the source is made read-only, and the first target records that
// the tables are handed over: this is the point of no return. Before it, each failure releases the lock, makes the
// source writable again and resumes following; a killed process loses the lock, and the next run does the rest.
//
// MySQL is locked as a whole, since it does not become read-only while statements wait for locked tables: see lockMySQL.
type Handover struct {
	o      HandoverOptions
	source readOnly

	trying sync.Mutex // held during a try: no part stops following meanwhile

	mu     sync.Mutex
	parts  []*HandoverPart // nil entries do not follow
	made   bool
	report Report
}

// A HandoverPart is the copy to one target.
type HandoverPart struct {
	Source  binlog.Follower
	State   *state.Following
	Tables  []*tabledef.Table
	Writer  func() *state.Writer // returns a new writer to the target
	Unequal func() int           // returns the number of rows known to differ

	// Check returns an error that prevents the handover. It is called while writes are stopped.
	Check func(context.Context) error

	to     string
	f      *follow.Follower
	record record
	notes  *state.Writer
	frozen bool
}

// NewHandover returns a Handover of parts.
func NewHandover(o HandoverOptions, parts int) (*Handover, error) {
	limits := Options{Lag: o.Lag, MaxPause: o.MaxPause, Tries: o.Tries}
	if err := limits.Validate(); err != nil {
		return nil, err
	}
	o.MaxPause, o.Tries = limits.MaxPause, limits.Tries
	if o.Lag < 0 || o.Tries < 0 || o.MaxPause < 0 {
		return nil, errors.New("the times and tries of a handover are 0 or more")
	}
	if err := o.Source.Validate(); err != nil {
		return nil, err
	}
	return &Handover{o: o, source: readOnly{o.Source, o.Patience}, parts: make([]*HandoverPart, parts)}, nil
}

// Made reports whether the tables are handed over, and returns the report.
func (h *Handover) Made() (*Report, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	report := h.report
	return &report, h.made
}

func (h *Handover) notify(format string, a ...any) {
	h.o.Observe(telemetry.Event{Kind: telemetry.EventCutover, Text: fmt.Sprintf(format, a...)})
}

// Follow calls run, which runs f, the follower of the part with this number.
func (h *Handover) Follow(ctx context.Context, number int, p *HandoverPart, f *follow.Follower, run func(context.Context) error) error {
	p.f, p.record, p.notes = f, record{p.State}, p.Writer()
	p.to = p.notes.Cfg.Addr
	set := func(p *HandoverPart) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.parts[number] = p
	}
	set(p)
	defer func() {
		h.trying.Lock()
		defer h.trying.Unlock()
		set(nil)
		p.notes.Close()
	}()
	return run(ctx)
}

// Run tries until the tables are handed over, no try is left, or rows are found to differ: then the parts end without it.
func (h *Handover) Run(ctx context.Context) error {
	for tried := 0; ; {
		parts, err := h.wait(ctx)
		if errors.Is(err, errUnequal) {
			h.notify("%v", err)
			for _, p := range parts {
				p.f.End()
			}
			return nil
		}
		if err == nil {
			err = h.try(ctx, parts)
		}
		if err == nil || ctx.Err() != nil || isUncertain(err) {
			return err
		}
		tried++
		h.mu.Lock()
		h.report.Tries = tried
		h.mu.Unlock()
		h.notify("try %d of %d: %v; clients write to the source", tried, h.o.Tries, err)
		if tried >= h.o.Tries {
			return fmt.Errorf("clients are at the source after as many tries as are allowed (%d); the last one: %w; run the same command again to resume from here", tried, err)
		}
		m := machine{tried: tried}
		if !telemetry.Sleep(ctx, m.pause()) {
			return context.Cause(ctx)
		}
	}
}

// wait blocks until all targets have caught up, their lag is at most that of the options, and, if rows are compared, all of them were.
func (h *Handover) wait(ctx context.Context) ([]*HandoverPart, error) {
	for {
		h.mu.Lock()
		parts := slices.Clone(h.parts)
		h.mu.Unlock()
		ready, unequal := true, false
		for _, p := range parts {
			if p == nil || p.f.Err() != nil || !p.f.Status().CaughtUp { // MayEnd is set before it can catch up
				ready = false
				continue
			}
			lag := p.f.Status().LagSeconds
			unequal = unequal || p.Unequal() > 0
			ready = p.f.MayEnd() && lag != nil && *lag <= h.o.Lag.Seconds() && ready
		}
		switch {
		case unequal && !slices.Contains(parts, nil):
			return parts, errUnequal
		case ready:
			return parts, nil
		case !telemetry.Sleep(ctx, pollInterval):
			return nil, context.Cause(ctx)
		}
	}
}

// reach blocks until catchUp has proved that the target has everything that the source has, and suspends following.
func (p *HandoverPart) reach(ctx context.Context, position binlog.Position, catchUp func(context.Context, binlog.Position) error, limit time.Duration) error {
	defer p.f.SuspendThrottle()() // writes are stopped: apply without throttling
	err := catchUp(ctx, position)
	for err == nil && !p.frozen {
		var boundary bool
		if boundary, err = p.f.Freeze(ctx); err != nil {
			break
		}
		if p.frozen = boundary; boundary {
			break
		}
		p.f.Thaw() // within a transaction of other tables
		if !telemetry.Sleep(ctx, pollInterval/10) {
			err = context.Cause(ctx)
		}
	}
	if err == nil {
		err = p.f.Err()
	}
	if err == nil {
		err = p.Check(ctx)
	}
	if err == nil {
		err = state.RaiseCounters(ctx, p.Source, p.Tables, p.notes, limit)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.to, err)
	}
	return nil
}

func (p *HandoverPart) thaw() {
	if p.frozen {
		p.f.Thaw()
		p.frozen = false
	}
}

// An uncertainError leaves the source read-only, or possibly so, since it is not known whether the tables are handed over.
type uncertainError struct{ err error }

// Error implements error.
func (e *uncertainError) Error() string {
	return "the source is read-only, or may be, and it is not known whether the tables are handed over: run the same command again, which completes that or makes the source writable: " + e.err.Error()
}

// Unwrap returns the cause.
func (e *uncertainError) Unwrap() error { return e.err }

func isUncertain(err error) bool {
	var uncertain *uncertainError
	return errors.As(err, &uncertain)
}

func deadlocked(err error) bool {
	var refused *mysqlconn.ServerError
	return errors.As(err, &refused) && refused.Number == mysqlwire.ErrnoDeadlock
}

// OpenHandoverPart deletes the record of a handover that was not completed; see Handover.Begin. It returns an error if another kind of
// cutover is recorded. With check it changes nothing.
func OpenHandoverPart(ctx context.Context, c *mysqlconn.Client, s *state.Following, check bool) error {
	records := record{s}
	noted, others, err := records.load(ctx, c)
	for try := 1; try < state.MaxTries && deadlocked(err); try++ { // parts that share a server
		noted, others, err = records.load(ctx, c)
	}
	switch {
	case err != nil:
		return err
	case len(others) > 0:
		return fmt.Errorf("a cutover started with other tables includes %s: clients may be on the target already; repeat its command; if it is certain that they are not, DELETE FROM %s in the target",
			strings.Join(others, ", "), records.Cutovers())
	case noted.phase == phaseNone || check:
		return nil
	case noted.phase != phaseHanding && noted.phase != phaseHanded:
		return fmt.Errorf("a cutover of these tables to one target is recorded as %s: clients may be on the target already, whose rows would be overwritten; "+
			"repeat its command; if it is certain that they are not, DELETE FROM %s in the target", noted.phase, records.Cutovers())
	}
	return records.forget(ctx, c)
}
