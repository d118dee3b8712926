package copier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/move/copier/state"
	"github.com/taredb/tare/move/copier/tabledef"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// The checks of a run, which change nothing on either side. Run and Plan share them, so both refuse the same
// tables.

// check returns an error if the state or the rows in the target do not permit the copy. The state's tables
// may be missing.
func (r *run) check(ctx context.Context) error {
	for _, t := range r.tables {
		if err := r.swapped(ctx, t); err != nil {
			return err
		}
		if err := recallTable(ctx, t, r.to, r.o, r.state); err != nil {
			return err
		}
		if err := mayWriteTo(ctx, t, r); err != nil {
			return err
		}
	}
	if r.o.Verify {
		if err := rowstream.CheckSums(ctx, r.to); err != nil {
			return fmt.Errorf("verify at the target: %w", err)
		}
	}
	return nil
}

// truncatable returns an error if Truncate names a table that is not a target, or is set without Restart.
func (o *Options) truncatable() error {
	if len(o.Truncate) > 0 && !o.Restart {
		return errors.New("--truncate requires --restart")
	}
	for _, name := range o.Truncate {
		if !slices.ContainsFunc(o.Tables, func(s tabledef.Spec) bool { return s.Target() == name }) {
			return fmt.Errorf("--truncate names %s, which is not a target table of this copy", name)
		}
	}
	return nil
}

// mayWriteTo returns an error for a target table with rows that no copy has recorded, unless --restart may
// empty it.
func mayWriteTo(ctx context.Context, t *tabledef.Table, r *run) error {
	if t.Create != "" || t.State != nil {
		return nil
	}
	if !r.o.Restart {
		return mustBeEmpty(ctx, t, r.to)
	}
	if slices.Contains(r.o.Truncate, t.Spec.Target()) {
		return nil
	}
	known, err := r.state.Known(ctx, r.to, t.Spec)
	if err != nil || known {
		return err
	}
	found, err := hasRows(ctx, t, r.to)
	if err == nil && found {
		err = fmt.Errorf("empty %s in the target: it has rows that no copy has recorded; to delete them, use --restart --truncate %s",
			t.Spec.Target(), t.Spec.Target())
	}
	return err
}

// swapped returns an error if the target table has rows and the state in the source says that the source's
// table was copied from it.
func (r *run) swapped(ctx context.Context, t *tabledef.Table) error {
	source, ok := r.from.(rowstream.Querier)
	if !ok || t.Create != "" {
		return nil
	}
	var addr, spec string
	from := tabledef.Spec{ToSchema: t.Spec.Schema, ToName: t.Spec.Name}
	err := source.Query(ctx, "SELECT source, spec FROM "+r.state.Tables()+state.RowsOf(&from), func(row mysqlwire.TextRow) error {
		addr, spec = string(row[0]), string(row[1])
		return nil
	})
	if rowstream.IsUnseen(err) || state.Absent(err) {
		return nil
	}
	if err != nil || addr == "" {
		return err
	}
	origin, _, _ := strings.Cut(strings.TrimPrefix(spec, "table "), ";")
	if found, err := hasRows(ctx, t, r.to); err != nil || !found || origin != t.Spec.Target() {
		return err
	}
	if !(&sourceRecord{r.job}).isTarget(ctx, addr) {
		return nil
	}
	return fmt.Errorf("copy %s to %s: its rows were copied from there, by %s in the source; are --from and --to swapped? "+
		"If the rows are to go back, delete the row of the table from %s first", t.Spec.Source(), t.Spec.Target(), r.state.Tables(), r.state.Tables())
}

// checkSource takes the source's snapshot and checks the conditions by having the source parse them.
func (r *run) checkSource(ctx context.Context) (err error) {
	workers := r.o.Workers
	if r.shortViews() {
		workers = 2 // only its position is used; with one worker MySQL takes no lock and does not report the position
	}
	if r.snapshot, err = r.openSnapshot(ctx, workers); err != nil {
		return err
	}
	if r.o.Follow && r.snapshot.Identity() == "" {
		return errors.New("the source does not identify itself, so that a later view of it could be another server's: --follow requires that it does")
	}
	if r.o.Follow {
		if err := sameCascades(ctx, r.from, r.tables); err != nil {
			return err
		}
	}
	if err := r.checkOwners(ctx); err != nil {
		return err
	}
	for _, t := range r.tables {
		if t.Spec.Where == "" || t.Past() {
			continue
		}
		none := rowstream.ReadOptions{Where: "(" + t.Spec.Where + ") AND FALSE", Plan: t.Plan}
		for _, err := range r.snapshot.Reader(0).Read(ctx, t.Source, rowstream.Chunk{}, none) {
			if err != nil {
				return fmt.Errorf("check the condition %q of %s: %w", t.Spec.Where, t.Spec.Source(), err)
			}
		}
	}
	return nil
}

// checkLocks returns an error for tables that another copy writes to, as acquireLease does.
func (r *run) checkLocks(ctx context.Context) error {
	for _, t := range r.tables {
		holder, err := rowstream.QueryValue(ctx, r.to, "SELECT COALESCE(IS_USED_LOCK("+rowstream.Quote(state.LockName(t.Spec))+"), 0)")
		if err != nil {
			return fmt.Errorf("check the lock of %s in the target: %w", t.Spec.Target(), err)
		}
		if holder != "0" {
			return fmt.Errorf("%w on %s, over connection %s", state.ErrLocked, t.Spec.Target(), holder)
		}
	}
	return nil
}
