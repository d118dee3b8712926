package copier

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/taredb/tare/copier/tabledef"
	"github.com/taredb/tare/rowstream"
)

// While changes are followed, the snapshot is needed for its position alone: rows are read through views that live for
// Options.MaxViewAge at most, each of one worker and one table. Nothing is known of a view but that it is later than the
// snapshot, and nothing else is needed: doc.go has the reasons.

// shortViews reports whether rows are read through short views: while changes are followed, unless there are stored
// generated columns, which are compared in the view that their chunk was read from.
func (r *run) shortViews() bool {
	return r.o.Follow && !slices.ContainsFunc(r.tables, (*tabledef.Table).StoresGenerated)
}

// shortReader is the reader of a worker.
func (r *run) shortReader() *rowstream.ShortReader {
	return rowstream.NewShortReader(rowstream.ShortOptions{
		Server: r.from, Identity: r.snapshot.Identity(), MaxAge: r.o.MaxViewAge, Patience: r.o.Patience,
		Waiting: func() func() {
			return r.o.waits.Begin("a view of a table of the source", "locks of others there", r.o.MaxViewAge)
		},
	})
}

// readError says what to do about an error of reading a table's rows.
func readError(t *tabledef.Table, err error) error {
	if !errors.Is(err, rowstream.ErrAltered) {
		return err
	}
	return fmt.Errorf("%w: table %s was altered on the source while its rows were being copied, so they have two forms; use --restart", err, t.Spec.Source())
}

// errShortLooks says that a chunk cannot be compared within a view's life.
var errShortLooks = errors.New("comparing a part of it takes longer than a view of the source lives: raise --max-view-age or lower --chunk-bytes")

// inView does something with a view of a table of the source, and again with another one when that has expired. Before that
// it waits, without a view, until the target has all that the source has.
func (v *followVerifier) inView(ctx context.Context, w *worker, t *tabledef.Table, do func(context.Context, rowstream.View) error) error {
	for range mostLooks {
		err := v.tryView(ctx, t, do)
		if err == nil || ctx.Err() != nil || !errors.Is(err, rowstream.ErrViewExpired) {
			return err
		}
		w.writer.Close() // a statement may have been interrupted
		w.pace.End()
		if err := v.caughtUp(ctx); err != nil {
			return err
		}
		if err := w.pace.Begin(ctx); err != nil {
			return err
		}
	}
	return errShortLooks
}

func (v *followVerifier) tryView(ctx context.Context, t *tabledef.Table, do func(context.Context, rowstream.View) error) (err error) {
	age := v.run.o.MaxViewAge
	age -= age / 10
	ctx, cancel := context.WithTimeoutCause(ctx, age, rowstream.ErrViewExpired)
	defer cancel()
	view, err := v.run.from.ShortView(ctx, "", t.Source, age)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	if err = do(ctx, view); err != nil && errors.Is(context.Cause(ctx), rowstream.ErrViewExpired) {
		err = errors.Join(rowstream.ErrViewExpired, err)
	}
	return err
}

// caughtUp waits until the target has all that the source has now.
func (v *followVerifier) caughtUp(ctx context.Context) error {
	p, err := v.f.source.NowPosition(ctx)
	if err != nil {
		return err
	}
	return v.f.catchUp(ctx, p)
}
