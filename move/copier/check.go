package copier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// The checks of a run, which change nothing on either side. Run and Plan share them, so both refuse the same
// tables.

// truncatable returns an error if Truncate names a table that is not a target, or is set without Restart.
func (o *Options) truncatable() error {
	if len(o.Truncate) > 0 && !o.Restart {
		return errors.New("option truncate requires option restart")
	}
	for _, name := range o.Truncate {
		if !slices.ContainsFunc(o.Tables, func(s tabledef.Spec) bool { return s.Target() == name }) {
			return fmt.Errorf("option truncate names %s, which is not a target table of this copy", name)
		}
	}
	return nil
}

// mayWriteTo returns an error for a target table with rows that no copy has recorded, unless --restart may
// empty it.
func mayWriteTo(ctx context.Context, t *tabledef.Table, j *job) error {
	if t.Create != "" || t.State != nil {
		return nil
	}
	if !j.o.Restart {
		return mustBeEmpty(ctx, t, j.to)
	}
	if slices.Contains(j.o.Truncate, t.Spec.Target()) {
		return nil
	}
	known, err := j.state.Known(ctx, j.to, t.Spec)
	if err != nil || known {
		return err
	}
	found, err := hasRows(ctx, t, j.to)
	if err == nil && found {
		err = fmt.Errorf("empty %s in the target: it has rows that no copy has recorded; to delete them, use option restart and option truncate %s",
			t.Spec.Target(), t.Spec.Target())
	}
	return err
}

// swapped returns an error if the target table has rows and the state in the source says that the source's
// table was copied from it.
func (p *preparePhase) swapped(ctx context.Context, t *tabledef.Table) error {
	source, ok := p.from.(session.Querier)
	if !ok || t.Create != "" {
		return nil
	}
	var addr, spec string
	from := tabledef.Spec{ToSchema: t.Spec.Schema, ToName: t.Spec.Name}
	err := source.Query(ctx, "SELECT source, spec FROM "+p.state.Tables()+state.RowsOf(&from), func(row mysqlwire.TextRow) error {
		addr, spec = string(row[0]), string(row[1])
		return nil
	})
	if session.IsUnseen(err) || state.Absent(err) {
		return nil
	}
	if err != nil || addr == "" {
		return err
	}
	origin, _, _ := strings.Cut(strings.TrimPrefix(spec, "table "), ";")
	if found, err := hasRows(ctx, t, p.to); err != nil || !found || origin != t.Spec.Target() {
		return err
	}
	if !(&sourceRecord{p.job}).isTarget(ctx, addr) {
		return nil
	}
	return fmt.Errorf("copy %s to %s: its rows were copied from there, by %s in the source; are the source and the target swapped? "+
		"If the rows are to go back, delete the row of the table from %s first", t.Spec.Source(), t.Spec.Target(), p.state.Tables(), p.state.Tables())
}

// checkLocks returns an error for tables that another copy writes to, as acquireLease does.
func (p *preparePhase) checkLocks(ctx context.Context) error {
	for _, t := range p.tables {
		holder, err := session.QueryValue(ctx, p.to, "SELECT COALESCE(IS_USED_LOCK("+session.Literal(state.LockName(t.Spec))+"), 0)")
		if err != nil {
			return fmt.Errorf("check the lock of %s in the target: %w", t.Spec.Target(), err)
		}
		if holder != "0" {
			return fmt.Errorf("%w on %s, over connection %s", state.ErrLocked, t.Spec.Target(), holder)
		}
	}
	return nil
}

// checkOwners returns an error for a table whose first rows belong to other sources, such as if the sources are given in another order. The other
// rows are checked as they are read.
func (p *preparePhase) checkOwners(ctx context.Context) error {
	for _, t := range p.tables {
		o := t.Target.Owned
		if o == nil || t.Past() {
			continue
		}
		reader := p.snapshot.Reader(0)
		c, err := tabledef.CutRows(ctx, reader, t.Source, new(tabledef.Sizing).Next(t.Source, 0, defaultChunkBytes), rowstream.Chunk{})
		if err != nil {
			return err
		}
		var foreign error
		for b, err := range reader.Read(ctx, t.Source, c, rowstream.ReadOptions{Plan: t.Plan}) {
			if err != nil {
				return err
			}
			if foreign == nil {
				foreign = o.CheckBatch(b)
			}
		}
		if foreign != nil {
			return fmt.Errorf("merge into %s: %w", t.Spec.Target(), foreign)
		}
	}
	return nil
}
