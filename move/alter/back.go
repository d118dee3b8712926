package alter

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// A backing follows the changes of an altered table back into the old one.
type backing struct {
	r      *run
	report *Report

	reverting bool // without a request

	once   sync.Once     // of the end
	wish   chan struct{} // closed when the operator has chosen an end
	drops  bool          // of the old table, rather than a swap back; set before wish is closed
	closed bool          // the window for a revert is over; set under once
	over   time.Time     // the end of the window for a revert; zero: there is none
}

func (r *run) newBacking(report *Report) *backing {
	return &backing{r: r, report: report, wish: make(chan struct{})}
}

var _ copier.Swap = (*backing)(nil)

// Phase implements copier.Swap.
func (b *backing) Phase() telemetry.RunPhase { return telemetry.RunReversing }

// ControlSocket returns the socket of the command, which the copy uses.
func (b *backing) ControlSocket() *control.Socket { return b.r.o.socket }

// Status implements copier.Swap.
func (b *backing) Status() *telemetry.AlterStatus { return b.r.o.Monitor.status() }

// Proceed returns an error: the tables are swapped.
func (b *backing) Proceed() error { return errors.New("the tables are swapped") }

// Revert has the tables swapped back.
func (b *backing) Revert(lossy bool) error {
	if loses := b.r.job.Kept.Lossy; len(loses) > 0 && !lossy {
		return fmt.Errorf("revert %s: values could be lost: %s; option lossy-revert reverts nevertheless", b.r.s.fullName(), strings.Join(loses, "; "))
	}
	return b.choose(false)
}

// Finish has the old table dropped.
func (b *backing) Finish() error {
	if b.reverting {
		return errors.New("it is being reverted")
	}
	return b.choose(true)
}

// choose sets the end. The first choice counts.
func (b *backing) choose(drops bool) error {
	b.once.Do(func() {
		b.drops = drops
		close(b.wish)
	})
	if b.closed {
		return errWindowOver
	}
	return nil
}

// follow follows changes until the old table has the name of the table again, or is dropped.
func (b *backing) follow(ctx context.Context) error {
	r := b.r
	if err := r.unaltered(ctx); err != nil {
		return err
	}
	m, _, err := r.backTables(ctx, r.job.Kept.Fixed)
	if err != nil {
		return err
	}
	r.o.Monitor.step(telemetry.StepBack)
	if !b.over.IsZero() {
		r.notify("changes of %s go back to %s.%s until %s, and this command runs on until then; tare alter ctl revert swaps the tables back, tare alter ctl finish drops the old one",
			r.s.fullName(), r.s.Schema, r.s.old(), b.over.UTC().Format(secondText))
	}
	o := r.o.copyOf(r.s.backSpec(m), b)
	o.KeepIndexes = true
	copied, err := copier.Run(ctx, o)
	if errors.Is(err, errWindowOver) {
		r.notify("the window for a revert is over; tare alter revert still swaps the tables back, while the binary log is there, until %s.%s is dropped", r.s.Schema, r.s.old())
		return nil
	}
	if err != nil {
		_ = dropSentry(context.WithoutCancel(ctx), r.c, r.s) // otherwise the next run does
		if closesWay(err) {
			err = r.withoutRemedy(err)
			return errors.Join(noWayError{fmt.Errorf("there is no way back any more: %w", err)}, r.closeWay(ctx, err))
		}
		return err
	}
	if f := copied.Follow; f != nil {
		b.report.Copy.Kept.Changes = f.Inserts + f.Updates + f.Deletes
	}
	return b.settle(ctx)
}

// withoutRemedy replaces what package copier advises for copies that can be resumed: the old table cannot be altered as the table was.
func (r *run) withoutRemedy(err error) error {
	var stop *binlog.StopError
	if !errors.As(err, &stop) {
		return err
	}
	said := *stop
	said.Try = fmt.Sprintf("the old table %s.%s has the changes before that alone, and tare alter finish drops it", r.s.Schema, r.s.old())
	return &said
}

var counterText = regexp.MustCompile(` AUTO_INCREMENT=\d+`)

// unaltered returns an error if the table was altered after the swap.
func (r *run) unaltered(ctx context.Context) error {
	spec := r.s.backSpec(nil)
	was, err := state.State{Schema: Schema}.Definition(ctx, r.c, &spec)
	if err != nil {
		return err
	}
	now, err := rowstream.ReadTable(ctx, r.c, r.s.Schema, r.s.Table)
	if err != nil {
		return err
	}
	if was == nil || definitionOf(was.Table) != definitionOf(now) {
		return noWayError{fmt.Errorf("%s was altered after the swap, which the old table %s.%s does not have: undo that, or have the old table dropped by tare alter finish",
			r.s.fullName(), r.s.Schema, r.s.old())}
	}
	return nil
}

// closeWay records that there is no way back any more.
func (r *run) closeWay(ctx context.Context, why error) error {
	r.job.Kept.Closed = why.Error()
	r.monitorOld(&Kept{State: KeptKept, NoWay: r.job.Kept.Closed, Lossy: r.job.Kept.Lossy})
	return jobRecords.save(context.WithoutCancel(ctx), r.c, r.s, r.job)
}

// Run waits for the end of the way back, and swaps the tables if that was chosen.
func (b *backing) Run(ctx context.Context, c *copier.Swapping) error {
	if err := b.await(ctx, c); err != nil {
		return err
	}
	if err := b.r.reconnect(ctx); err != nil || b.drops {
		return err
	}
	if err := b.r.unaltered(ctx); err != nil {
		return err
	}
	if len(b.r.job.Kept.Lossy) == 0 {
		b.r.notify("all rows are compared before the tables are swapped back")
		if err := c.CompareRows(ctx); err != nil {
			return err
		}
	}
	g, err := b.r.openGateway(ctx)
	if err != nil {
		return err
	}
	w := b.r.newSwapper(b.report.Copy, g, b.r.s.old(), b.r.s.reverted())
	defer w.close()
	return w.run(ctx, c)
}

// errWindowOver ends following changes back.
var errWindowOver = errors.New("the window for a revert is over")

// await blocks until an end is chosen, by the operator or by the time. It returns errWindowOver if the old table is kept for longer than
// the window.
func (b *backing) await(ctx context.Context, c *copier.Swapping) error {
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-b.wish:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-poll.C:
			if b.r.job.over() {
				_ = b.choose(true) // or the operator's choice
			}
			if !b.over.IsZero() && time.Now().After(b.over) {
				return b.close()
			}
			if err := c.Err(); err != nil {
				return err
			}
		}
	}
}

// close ends the window for a revert, unless the operator has chosen another end.
func (b *backing) close() error {
	b.once.Do(func() { b.closed = true })
	if b.closed {
		return errWindowOver
	}
	return nil
}

// settle drops the tables that are left, and reports the state of the old table.
func (b *backing) settle(ctx context.Context) error {
	r, k := b.r, &b.report.Copy.Kept
	k.Until, k.NoWay, k.Lossy = "", "", r.job.Kept.Lossy
	if k.State = KeptDropped; !b.drops {
		k.State, r.stage = KeptReverted, stageReverted
		r.o.hooks.emit(hookEvent{Event: hookReverted, PauseSeconds: b.report.Copy.PauseSeconds})
		if len(k.Lossy) > 0 {
			k.Altered = r.s.Schema + "." + r.s.reverted()
		}
	}
	if err := r.forgetOld(ctx); err != nil {
		return err
	}
	r.monitorOld(k)
	if b.drops {
		r.notify("the old table %s.%s is dropped", r.s.Schema, r.s.old())
	}
	return nil
}

// reconnect replaces the connection of the run if it was lost while changes were followed.
func (r *run) reconnect(ctx context.Context) error {
	if _, err := session.QueryValue(ctx, r.c, "SELECT 1"); err == nil || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.close()
	c, err := connect(ctx, r.o.On)
	if err != nil {
		return err
	}
	r.c = c
	return r.lock(ctx)
}
