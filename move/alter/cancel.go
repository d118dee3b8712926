package alter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// ErrCancelled is the error of an alteration that was cancelled over its control socket.
var ErrCancelled = errors.New("cancelled by ctl cancel: the table is as it was, and the shadow table and the state of the copy are removed")

// errTooLate is the error of a request to cancel that comes after the swap.
var errTooLate = errors.New("the table is altered already: tare alter revert swaps the tables back, tare alter finish drops the old one")

// Cancel removes the shadow table, the job and the state of a copy that no process works on, and returns its clauses. Those of the options
// are ignored.
func Cancel(ctx context.Context, o Options) (clauses string, err error) {
	if err := o.validate(); err != nil {
		return "", err
	}
	r := &run{o: &o, s: &Statement{Schema: o.Schema, Table: o.Table}}
	if r.c, err = connect(ctx, o.On); err != nil {
		return "", err
	}
	defer r.close()
	if err := r.fold(ctx); err != nil {
		return "", err
	}
	if err := r.lock(ctx); err != nil {
		return "", again(err, "tare alter ctl cancel cancels it on its host")
	}
	return r.undo(ctx)
}

// undo removes what is left of a copy whose tables are not swapped, and returns its clauses.
func (r *run) undo(ctx context.Context) (clauses string, err error) {
	if err := r.findStage(ctx); err != nil {
		return "", err
	}
	switch r.stage {
	case stageNone:
		return "", fmt.Errorf("no unfinished tare alter of %s is recorded in schema %s: there is nothing to cancel", r.s.fullName(), Schema)
	case stageSwapped:
		return "", fmt.Errorf("cancel %q on %s: %w", r.job.Clauses, r.s.fullName(), errTooLate)
	case stageCopying:
		return r.job.Clauses, r.discard(ctx)
	}
	return r.job.Clauses, r.forgetOld(ctx)
}

// cancelled returns the error of a run that has failed with err. It first removes what the run has left if that was requested.
func (r *run) cancelled(ctx context.Context, err error) error {
	if err == nil || !errors.Is(context.Cause(ctx), ErrCancelled) {
		return err
	}
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), r.o.Patience)
	defer end()
	if err := r.removeAll(ctx); err != nil {
		return fmt.Errorf("cancel the alteration of %s: %w; repeat it with option cancel", r.s.fullName(), err)
	}
	return ErrCancelled
}

// removeAll is undo for a run whose connection may be lost, and whose statement the server may still execute.
func (r *run) removeAll(ctx context.Context) error {
	for {
		err := r.reconnect(ctx)
		if err == nil {
			break
		}
		if !errors.Is(err, errBusy) || !telemetry.Sleep(ctx, 100*time.Millisecond) {
			return err
		}
	}
	if err := r.findStage(ctx); err != nil {
		return err
	}
	if r.stage != stageNone {
		_, err := r.undo(ctx)
		return err
	}
	is, err := rowstream.ReadTable(ctx, r.c, r.s.Schema, r.s.Table)
	if err == nil && definition(is.Create) != definition(r.t.Create) {
		err = fmt.Errorf("%w: the server had altered it before the request", ErrNotFollowed)
	}
	return err
}

// kill ends a statement of the server whose connection was left, which it would execute to its end otherwise.
func (d *directer) kill(ctx context.Context) error {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), d.o.Patience)
	defer end()
	c, err := connect(ctx, d.o.On)
	if err == nil {
		_, err = c.Exec(ctx, fmt.Sprintf("KILL %d", d.c.ConnectionID))
		_ = c.Close() // the statement was sent
	}
	const noThread = 1094 // it has ended
	if refused, ok := errors.AsType[*mysqlconn.ServerError](err); err != nil && !(ok && refused.Number == noThread) {
		return fmt.Errorf("end the ALTER TABLE in the server: %w", err)
	}
	return nil
}
