package copier

import (
	"errors"
	"fmt"

	"github.com/taredb/tare/move/copier/tabledef"
	"github.com/taredb/tare/mysql/rowstream"
)

// While changes are followed, only the position of the snapshot is used. Rows are read through views that
// live for at most Options.MaxViewAge, each for one worker and one table. A view must be later than the
// snapshot, and nothing else is required of it; see doc.go.

// shortReader returns a reader for one worker.
func (r *run) shortReader() *rowstream.ShortReader {
	return rowstream.NewShortReader(rowstream.ShortOptions{
		Server: r.from, Identity: r.snapshot.Identity(), MaxAge: r.o.MaxViewAge, Patience: r.o.Patience,
		Waiting: func() func() {
			return r.o.waits.Begin("a view of a table of the source", "locks of others there", r.o.MaxViewAge)
		},
	})
}

// readError adds advice to an error of reading a table's rows.
func readError(t *tabledef.Table, err error) error {
	if !errors.Is(err, rowstream.ErrAltered) {
		return err
	}
	return fmt.Errorf("%w: table %s was altered on the source while its rows were being copied, so they have two forms; use --restart", err, t.Spec.Source())
}
