package copier

import (
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
