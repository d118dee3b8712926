package copier

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/copier/state"
	"github.com/taredb/tare/copier/tabledef"
	"github.com/taredb/tare/copier/telemetry"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/rowstream"
)

// backOptions are those of the stream from the target back to the source.
func (c *cutover) backOptions() Options {
	o := *c.r.o
	o.To, o.Tables, o.UntilCaughtUp, o.Verify, o.Cutover = c.o.Back, nil, false, false, nil
	for i := range c.r.o.Tables {
		s := &c.r.o.Tables[i]
		o.Tables = append(o.Tables, tabledef.Spec{Schema: s.ToSchema, Name: s.ToName, ToSchema: s.Schema, ToName: s.Name})
	}
	o.Observe = func(e telemetry.Event) {
		if e.Text != "" {
			e.Text = "back to the source: " + e.Text
		}
		c.r.o.Observe(e)
	}
	return o
}

// describeReversed reads the tables the other way round and refuses, before any client is held, what could
// not go back.
func (c *cutover) describeReversed(ctx context.Context) error {
	if c.back == nil || c.reversed != nil {
		return nil
	}
	to, err := rowstream.Connect(ctx, c.o.Back)
	if err != nil {
		return fmt.Errorf("connect to the source: %w", err)
	}
	defer func() { _ = to.Close() }() // nothing is under way
	o := c.backOptions()
	var tables []*tabledef.Table
	for i := range o.Tables {
		t, err := c.describeBack(ctx, to, &o, &o.Tables[i])
		if err != nil {
			return fmt.Errorf("the target's changes could not go back to the source: %w; or do without: --reverse-window 0", err)
		}
		tables = append(tables, t)
	}
	if err := c.mayKeepState(ctx, to); err != nil {
		return fmt.Errorf("the target's changes could not go back to the source: %w; or do without: --reverse-window 0", err)
	}
	if err := onlyAmong(ctx, to, tables); err != nil {
		return fmt.Errorf("the target's changes could not go back to the source: %w; or do without: --reverse-window 0", err)
	}
	c.reversed = tables
	return nil
}

func (c *cutover) describeBack(ctx context.Context, to *mysqlconn.Client, o *Options, spec *tabledef.Spec) (*tabledef.Table, error) {
	t, err := tabledef.Describe(ctx, c.back, to, o.describing(), spec)
	if err != nil {
		return nil, err
	}
	if t.Create != "" {
		return nil, fmt.Errorf("the source has no table %s any more", spec.Target())
	}
	if err := mayReplace(ctx, to, spec.TargetSQL(), t.Target.Columns); err != nil {
		return nil, fmt.Errorf("write to %s: %w", spec.Target(), err)
	}
	return t, nil
}

// mayReplace executes statements that change no row, and are refused where the account may not write to a table as changes are
// applied.
func mayReplace(ctx context.Context, c *mysqlconn.Client, table string, columns []rowstream.Column) error {
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = columns[i].Name
	}
	list := rowstream.Idents(names)
	for _, sql := range []string{"DELETE FROM " + table + " WHERE FALSE", "REPLACE INTO " + table + " (" + list + ") SELECT " + list + " FROM " + table + " WHERE FALSE"} {
		if _, err := c.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// mayKeepState creates the state's tables in the source, and fails where the account may not write to them.
func (c *cutover) mayKeepState(ctx context.Context, to *mysqlconn.Client) error {
	s := state.State{Schema: c.r.o.StateSchema}
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

// reverse has the target's changes go back to the source until the window is over.
func (c *cutover) reverse(ctx context.Context) error {
	o := c.backOptions()
	var there *backSide
	var from binlog.Position
	err := c.patiently(ctx, func() (err error) {
		there, from, err = c.beginBack(ctx, &o)
		return err
	})
	if err != nil {
		return err
	}
	defer state.CloseHolder(there.c) // its writes are committed
	f, err := newFollower(&o, c.back, c.reversed, there.state, from)
	if err != nil {
		return err
	}
	h, err := newHeart(c.back, &o, there.state.ID, c.reversed)
	if err != nil {
		return err
	}
	f.beats(h)
	defer func() {
		if err := f.heart.end(ctx); err != nil {
			c.r.o.Observe(telemetry.Event{Kind: telemetry.EventRetry, Text: err.Error()})
		}
	}()
	left := max(0, c.o.Window-c.since)
	c.tell("what is written to the target goes back to the source from %s on, for %v; tare copy ctl finish ends that", from, left.Round(time.Second))
	c.r.watch(f, telemetry.RunReversing)
	following, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	watching.Go(func() { c.watchBack(following, f, left, cancel) })
	err = f.run(following)
	if errors.Is(context.Cause(following), errSwitchedBack) {
		err = errSwitchedBack
	}
	cancel(nil)
	watching.Wait()
	c.report.Reverse = f.report()
	if err == nil || errors.Is(err, errSwitchedBack) {
		err = errors.Join(err, c.raiseBack(ctx, there))
	}
	return err
}

// raiseBack raises the source's counters to those of the target: ids that were given out there are not given out again.
func (c *cutover) raiseBack(ctx context.Context, there *backSide) error {
	for _, t := range c.reversed {
		if !t.Counts {
			continue
		}
		counter, err := counterOf(ctx, c.back, t.Spec)
		if err == nil && counter > 1 {
			err = state.RaiseCounter(t, ctx, there.c, there.state.Lease, counter, c.r.o.Patience)
		}
		var refused *mysqlconn.ServerError
		if errors.As(err, &refused) && refused.Number == state.ErrTableDenied {
			c.tell("the account may not alter %s in the source, which may give out ids of rows that came from the target: ALTER TABLE %s AUTO_INCREMENT = %d",
				t.Spec.Target(), t.Spec.TargetSQL(), counter)
			err = nil
		}
		if err != nil {
			return fmt.Errorf("set AUTO_INCREMENT of %s in the source, after changes were written back: %w", t.Spec.Target(), err)
		}
	}
	return nil
}

// beginBack connects to the source for writing, and finds out where the reverse stream begins.
func (c *cutover) beginBack(ctx context.Context, o *Options) (there *backSide, from binlog.Position, err error) {
	if err := c.describeReversed(ctx); err != nil {
		return nil, from, err
	}
	if there, err = c.openBack(ctx, o.Tables); err != nil {
		return nil, from, err
	}
	if from, err = c.reverseFrom(ctx, there); err == nil {
		err = c.back.CheckFollow(ctx, c.sources(), from)
	}
	if err != nil {
		state.CloseHolder(there.c) // its note may be written again
		return nil, from, err
	}
	return there, from, nil
}

// patiently does what may be done twice, again as long as a server is away, until the patience
// ends.
func (c *cutover) patiently(ctx context.Context, do func() error) error {
	for began := time.Now(); ; {
		err := do()
		if err == nil || !state.IsAway(err) || time.Since(began) > c.r.o.Patience {
			return err
		}
		c.r.o.Observe(telemetry.Event{Kind: telemetry.EventRetry, Text: err.Error()})
		if !telemetry.Sleep(ctx, routePause) {
			return context.Cause(ctx)
		}
	}
}

// watchBack ends the reverse stream when its window is over, or clients are at the source again.
func (c *cutover) watchBack(ctx context.Context, f *follower, left time.Duration, end context.CancelCauseFunc) {
	over := time.NewTimer(left)
	defer over.Stop()
	look := time.NewTicker(routePause)
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

// reverseFrom is where the reverse stream goes on. The first time, the source may have a note
// of an older cutover: the one that counts is written over it, before the target notes that the
// source's is the one to go on from.
func (c *cutover) reverseFrom(ctx context.Context, there *backSide) (binlog.Position, error) {
	if c.m.phase == cutReversing {
		p, err := there.state.Position(ctx, there.c)
		if err != nil || !p.IsZero() {
			return p, err
		}
	}
	if c.target.IsZero() {
		return c.target, errors.New("no position of the target's log was recorded at the switch, which used --reverse-window 0: nothing can be written back; continue with that option")
	}
	if err := there.state.Record(ctx, there.c, c.target); err != nil {
		return c.target, err
	}
	err := c.notes.Again(ctx, func() error { return c.state.enter(ctx, c.notes.Conn, cutReversing) })
	if err == nil {
		c.m.phase = cutReversing
	}
	return c.target, err
}

// sources are the reversed tables as the target describes them.
func (c *cutover) sources() []*rowstream.Table {
	all := make([]*rowstream.Table, len(c.reversed))
	for i, t := range c.reversed {
		all[i] = t.Source
	}
	return all
}

// tellSteps tells, once the target has caught up, what to do where there is no gateway that
// could do it.
func (r *run) tellSteps(ctx context.Context, f *follower) {
	if f.WaitCaughtUp(ctx) != nil {
		return
	}
	r.o.Observe(telemetry.Event{Kind: telemetry.EventCutover, Text: fmt.Sprintf(`the target has all changes of the source before %s. To switch without a gateway:
  1. stop all writers, or on the source (%s): SET GLOBAL read_only = 1; KILL the sessions that can still write
  2. tare copy ctl finish     it applies what is left, and this command ends with 0; otherwise: SET GLOBAL read_only = 0
  3. have clients connect to %s
Nothing flows back to %s then. With tare serve before both, --gateway http://host:8316 does all of it.`,
		f.Applied(), r.from.Addr(), r.o.To.Addr, r.from.Addr())})
}
