package cutover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/copier/follow"
	"github.com/taredb/tare/copier/state"
	"github.com/taredb/tare/copier/tabledef"
	"github.com/taredb/tare/copier/telemetry"
	"github.com/taredb/tare/internal/parallel"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
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
		var uncertain *uncertainError
		if err == nil || ctx.Err() != nil || errors.As(err, &uncertain) {
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

// try hands the tables over, or leaves clients at the source and returns why.
func (h *Handover) try(ctx context.Context, parts []*HandoverPart) (err error) {
	h.trying.Lock()
	defer h.trying.Unlock()
	began := time.Now()
	held, cancel := context.WithDeadline(ctx, began.Add(h.o.MaxPause))
	defer cancel()
	whole := context.WithoutCancel(ctx)
	h.notify("writes to the source's tables are stopped, for at most %v", h.o.MaxPause)
	locks, err := h.source.lock(held, h.o.Tables, h.o.MaxPause)
	if err != nil {
		return h.late(held, err, "the source's tables were not locked against writes")
	}
	defer func() { _ = locks.Close() }() // the server releases the locks
	defer func() {
		for _, p := range parts {
			p.thaw()
		}
	}()
	all := !rowstream.IsMariaDB(locks.ServerVersion) // the whole server is locked: it takes no heartbeats
	var position binlog.Position
	if all {
		position, err = lockedPosition(held, locks, parts)
	} else {
		position, err = parts[0].Source.CurrentPosition(held)
	}
	if err != nil {
		return err
	}
	if err := parallel.ForEach(held, len(parts), parts, func(ctx context.Context, p *HandoverPart) error {
		catchUp := p.f.CatchUp
		if all {
			catchUp = p.f.Reach
		}
		return p.reach(ctx, position, catchUp, h.o.MaxPause)
	}); err != nil {
		return h.late(held, err, "a target had not reached the source's position")
	}
	note := func(ctx context.Context, p *HandoverPart, phase phase) error {
		err := p.notes.Retry(ctx, func() error { return p.record.recordHandover(ctx, p.notes.Conn, position, phase) })
		if err != nil {
			err = fmt.Errorf("%s: %w", p.to, err)
		}
		return err
	}
	err = parallel.ForEach(held, len(parts), parts, func(ctx context.Context, p *HandoverPart) error { return note(ctx, p, phaseHanding) })
	if err != nil {
		return errors.Join(h.late(held, err, "a target had not recorded the handover"), h.forget(whole, parts))
	}
	if all {
		err = h.source.stopLocked(whole, locks)
	} else {
		err = h.source.stop(whole, h.o.MaxPause-time.Since(began))
	}
	if err != nil {
		if uncertain := new(uncertainError); errors.As(err, &uncertain) {
			return err
		}
		return errors.Join(fmt.Errorf("make the source read-only: %w", err), h.forget(whole, parts))
	}
	// From here on ctx is ignored: clients cannot write anywhere.
	if all {
		err = h.source.settle(whole, locks, position, began, h.o.MaxPause)
	} else if _, err = locks.Exec(whole, "DO 0"); err != nil {
		err = fmt.Errorf("the connection that locked the source's tables was lost: %w", err)
	}
	if err == nil {
		err = h.decide(whole, parts[0], note)
	}
	if uncertain := new(uncertainError); errors.As(err, &uncertain) {
		return err
	}
	if err != nil {
		if released := h.source.release(whole); released != nil {
			return &uncertainError{fmt.Errorf("%w; and the source could not be made writable again: %w", err, released)}
		}
		return errors.Join(err, h.forget(whole, parts))
	}
	for _, p := range parts[1:] {
		if err := note(whole, p, phaseHanded); err != nil {
			h.notify("not recorded by all targets, which the next run repeats: %v", err)
		}
	}
	for _, p := range parts {
		p.f.Seal()
		p.frozen = false
	}
	pause := time.Since(began)
	h.mu.Lock()
	h.made = true
	h.report.Phase, h.report.SourcePosition, h.report.PauseSeconds = string(phaseHanded), position.String(), pause.Seconds()
	h.mu.Unlock()
	h.notify("the source is read-only, and each of the %d targets has everything before %s; it took %v", len(parts), position, pause.Round(time.Millisecond))
	return nil
}

// decide records in the first target that the tables are handed over.
func (h *Handover) decide(ctx context.Context, first *HandoverPart, note func(context.Context, *HandoverPart, phase) error) error {
	err := note(ctx, first, phaseHanded)
	if err == nil {
		return nil
	}
	var noted recorded
	readErr := first.notes.Retry(ctx, func() (err error) {
		noted, _, err = first.record.load(ctx, first.notes.Conn, nil)
		return err
	})
	switch {
	case readErr != nil:
		return &uncertainError{errors.Join(err, readErr)}
	case noted.phase == phaseHanded:
		return nil
	}
	return err
}

// forget deletes the records of a try that has failed.
func (h *Handover) forget(ctx context.Context, parts []*HandoverPart) error {
	return parallel.ForEach(ctx, len(parts), parts, func(ctx context.Context, p *HandoverPart) error {
		return p.notes.Retry(ctx, func() error { return p.record.forget(ctx, p.notes.Conn) })
	})
}

func (h *Handover) late(ctx context.Context, err error, what string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s when the %v of --cutover-hold were over: %w", what, h.o.MaxPause, err)
	}
	return err
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

func deadlocked(err error) bool {
	var refused *mysqlconn.ServerError
	return errors.As(err, &refused) && refused.Number == mysqlwire.ErrnoDeadlock
}

// OpenHandoverPart deletes the record of a handover that was not completed; see Handover.Begin. It returns an error if another kind of
// cutover is recorded. With check it changes nothing.
func OpenHandoverPart(ctx context.Context, c *mysqlconn.Client, s *state.Following, sources []string, check bool) error {
	records := record{s}
	noted, others, err := records.load(ctx, c, sources)
	for try := 1; try < state.MaxTries && deadlocked(err); try++ { // parts that share a server
		noted, others, err = records.load(ctx, c, sources)
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
