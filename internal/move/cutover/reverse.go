package cutover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/taredb/tare/internal/move/follow"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/retry"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// backSpecs returns the tables of the reverse stream, from the target back to the source.
func (c *Cutover) backSpecs() []tabledef.Spec {
	specs := make([]tabledef.Spec, len(c.copy.Specs))
	for i := range specs {
		s := &c.copy.Specs[i]
		specs[i] = tabledef.Spec{Schema: s.ToSchema, Name: s.ToName, ToSchema: s.Schema, ToName: s.Name}
	}
	return specs
}

// observeBack reports an event of the reverse stream.
func (c *Cutover) observeBack(e telemetry.Event) {
	if e.Text != "" {
		e.Text = "back to the source: " + e.Text
	}
	c.copy.Observe(e)
}

// describeReversed describes the tables in reverse direction. It returns an error, before any client is
// paused, if their changes could not be written back.
func (c *Cutover) describeReversed(ctx context.Context) error {
	if c.back == nil || c.reversed != nil {
		return nil
	}
	to, err := session.Connect(ctx, c.o.Back)
	if err != nil {
		return fmt.Errorf("connect to the source: %w", err)
	}
	defer func() { _ = to.Close() }() // it has no open transaction
	tables, err := c.describeAllBack(ctx, to)
	if err == nil {
		err = c.mayKeepState(ctx, to)
	}
	if err == nil {
		err = tabledef.OnlyAmong(ctx, to, tables)
	}
	if err != nil {
		return fmt.Errorf("the target's changes could not go back to the source: %w; or do without: option reverse-window 0", err)
	}
	c.reversed = tables
	return nil
}

func (c *Cutover) describeAllBack(ctx context.Context, to *mysqlconn.Client) (tables []*tabledef.Table, err error) {
	specs := c.backSpecs()
	for i := range specs {
		spec := &specs[i]
		t, err := tabledef.Describe(ctx, c.back, to, tabledef.DescribeOptions{Follow: true}, spec)
		if err != nil {
			return nil, err
		}
		if t.Create != "" {
			return nil, fmt.Errorf("the source has no table %s any more", spec.Target())
		}
		if err := mayReplace(ctx, to, spec.TargetSQL(), t.Target.Columns); err != nil {
			return nil, fmt.Errorf("write to %s: %w", spec.Target(), err)
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// mayReplace executes statements that change no row, and returns an error if the account may not execute the
// statements by which changes are applied.
func mayReplace(ctx context.Context, c *mysqlconn.Client, table string, columns []rowstream.Column) error {
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = columns[i].Name
	}
	list := session.Idents(names)
	for _, sql := range []string{"DELETE FROM " + table + " WHERE FALSE", "REPLACE INTO " + table + " (" + list + ") SELECT " + list + " FROM " + table + " WHERE FALSE"} {
		if _, err := c.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// mayKeepState creates the state's tables in the source, and returns an error if the account may not write to
// them.
func (c *Cutover) mayKeepState(ctx context.Context, to *mysqlconn.Client) error {
	s := state.State{Schema: c.state.Schema}
	if err := s.CreateEpochs(ctx, to); err != nil {
		return err
	}
	if err := s.CreateFollow(ctx, to); err != nil {
		return err
	}
	if _, err := to.Exec(ctx, "UPDATE "+s.Epochs()+" SET epoch = epoch WHERE FALSE"); err != nil {
		return fmt.Errorf("write to %s: %w", s.Epochs(), err)
	}
	for table, column := range map[string]string{s.Epochs(): "epoch", s.Follows(): "id"} {
		if err := mayReplace(ctx, to, table, []rowstream.Column{{Name: column}}); err != nil {
			return fmt.Errorf("write to %s: %w", table, err)
		}
	}
	return nil
}

// reverse writes the target's changes back to the source until the window is over.
func (c *Cutover) reverse(ctx context.Context) error {
	var there *backSide
	var from binlog.Position
	err := c.patiently(ctx, func() (err error) {
		there, from, err = c.openReverse(ctx)
		return err
	})
	if err != nil {
		return err
	}
	defer state.CloseLease(there.c) // its writes are committed
	h := c.copy.NewHeartbeat(c.back, there.state.ID, c.reversed)
	shared := c.copy.Shared
	shared.Observe = c.observeBack
	f, err := follow.New(follow.Options{
		Source: c.back, Tables: c.reversed, From: from, State: there.state, Writer: func() *state.Writer { return c.backWriter(there) },
		Heartbeat: h, Shared: shared,
	})
	if err != nil {
		return err
	}
	defer h.End(ctx)
	left := max(0, c.o.Window-c.since)
	c.notify("what is written to the target goes back to the source from %s on, for %v; tare copy ctl finish ends that", from.Place(), left.Round(time.Second))
	c.copy.Watch(f, telemetry.RunReversing)
	following, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	watching.Go(func() { c.watchBack(following, f, left, cancel) })
	err = f.Run(following)
	if errors.Is(context.Cause(following), errSwitchedBack) {
		err = errSwitchedBack
	}
	cancel(nil)
	watching.Wait()
	c.report.Reverse = f.Report()
	if err == nil || errors.Is(err, errSwitchedBack) {
		err = errors.Join(err, c.raiseBack(ctx, there))
	}
	return err
}

// backWriter returns a writer to the source.
func (c *Cutover) backWriter(there *backSide) *state.Writer {
	return &state.Writer{
		Cfg: c.o.Back, State: there.state.State, Patience: c.copy.Patience, Waits: c.copy.Waits, Follows: true, Observe: c.observeBack,
	}
}

// raiseBack raises the source's AUTO_INCREMENT counters to those of the target, so that ids generated there
// are not generated again.
func (c *Cutover) raiseBack(ctx context.Context, there *backSide) error {
	w := c.backWriter(there)
	defer w.Close()
	for _, t := range c.reversed {
		counter, err := state.RaiseCounter(ctx, c.back, t, w, c.copy.Patience)
		var refused *mysqlconn.ServerError
		if errors.As(err, &refused) && refused.Number == state.ErrTableDenied {
			c.notify("the account may not alter %s in the source, which may give out ids of rows that came from the target: ALTER TABLE %s AUTO_INCREMENT = %d",
				t.Spec.Target(), t.Spec.TargetSQL(), counter)
			err = nil
		}
		if err != nil {
			return fmt.Errorf("set AUTO_INCREMENT of %s in the source, after changes were written back: %w", t.Spec.Target(), err)
		}
	}
	return nil
}

// openReverse connects to the source for writing, and determines the position from which the reverse stream
// starts.
func (c *Cutover) openReverse(ctx context.Context) (there *backSide, from binlog.Position, err error) {
	if err := c.describeReversed(ctx); err != nil {
		return nil, from, err
	}
	if there, err = c.openBack(ctx); err != nil {
		return nil, from, err
	}
	if from, err = c.reverseFrom(ctx, there); err == nil {
		err = c.back.CheckFollow(ctx, c.sources(), from)
	}
	if err != nil {
		state.CloseLease(there.c) // its record may be written again
		return nil, from, err
	}
	return there, from, nil
}

// patiently calls do, which must be idempotent, until it succeeds, a server refuses it, or the servers were
// unreachable for longer than the patience.
func (c *Cutover) patiently(ctx context.Context, do func() error) error {
	return retry.Within(ctx, c.copy.Patience, func() error {
		err := do()
		if err != nil && !state.IsUnreachable(err) {
			return retry.Final(err)
		}
		if err != nil {
			c.copy.Observe(telemetry.Event{Kind: telemetry.EventRetry, Text: "repeated: " + err.Error()})
		}
		return err
	})
}

// watchBack stops the reverse stream when its window is over or clients are on the source again.
func (c *Cutover) watchBack(ctx context.Context, f *follow.Follower, left time.Duration, end context.CancelCauseFunc) {
	over := time.NewTimer(left)
	defer over.Stop()
	look := time.NewTicker(routeInterval)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-over.C:
			f.Finish()
		case <-look.C:
			if a, err := c.gateway.Route(ctx); err == nil && clientsAt(&a, c.names) == routeSource {
				end(errSwitchedBack)
			}
		}
	}
}

// reverseFrom returns the position from which the reverse stream resumes. At first, the source may have a
// record of an older cutover: it is overwritten before the phase "reversing" is recorded in the target, from
// which time on the source's record is used.
func (c *Cutover) reverseFrom(ctx context.Context, there *backSide) (binlog.Position, error) {
	if c.m.phase == phaseReversing {
		p, err := there.state.Position(ctx, there.c)
		if err != nil || !p.IsZero() {
			return p, err
		}
	}
	if c.target.IsZero() {
		return c.target, errors.New("no position of the target's log was recorded at the switch, which used option reverse-window 0: nothing can be written back; continue with that option")
	}
	if err := there.state.Record(ctx, there.c, c.target); err != nil {
		return c.target, err
	}
	err := c.notes.Retry(ctx, func() error { return c.state.recordPhase(ctx, c.notes.Conn, phaseReversing) })
	if err == nil {
		c.m.phase = phaseReversing
	}
	return c.target, err
}

// sources returns the reversed tables as described by the target.
func (c *Cutover) sources() []*rowstream.Table {
	all := make([]*rowstream.Table, len(c.reversed))
	for i, t := range c.reversed {
		all[i] = t.Source
	}
	return all
}

// Steps reports, once the target has caught up, the steps of a manual switch without a gateway.
func Steps(ctx context.Context, f *follow.Follower, from, to string, observe func(telemetry.Event)) {
	if f.WaitCaughtUp(ctx) != nil {
		return
	}
	observe(telemetry.Event{Kind: telemetry.EventCutover, Text: fmt.Sprintf(`the target has all changes of the source before %s. To switch without a gateway:
  1. stop all writers, or on the source (%s): SET GLOBAL read_only = 1; KILL the sessions that can still write
  2. tare copy ctl finish     it applies what is left, and this command ends with 0; otherwise: SET GLOBAL read_only = 0
  3. have clients connect to %s
Nothing flows back to %s then. With tare serve before both, --gateway http://host:8316 does all of it.`,
		f.Applied().Place(), from, to, from)})
}
