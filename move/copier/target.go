package copier

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// beginTable creates a table that is missing in the target, and records it in the state. A table of an
// earlier run is resumed.
func beginTable(ctx context.Context, t *tabledef.Table, c *mysqlconn.Client, s state.State, from, position string) error {
	if t.State == nil {
		if err := createTarget(ctx, t, c); err != nil {
			return err
		}
		if err := mustBeEmpty(ctx, t, c); err != nil {
			return err
		}
		if err := s.Begin(ctx, c, t.Spec, t.RecordedSpec(), from, position, t.DeferredIndexes, t.Keys); err != nil {
			return err
		}
		t.State = &tabledef.Recorded{Source: from, Spec: t.RecordedSpec(), Phase: tabledef.Copying, Position: position, Indexes: t.DeferredIndexes, Keys: t.Keys}
	}
	return nil
}

// stripIndexes drops the secondary indexes of a target table without copied rows. They are created again
// after the rows.
func stripIndexes(ctx context.Context, t *tabledef.Table, c *mysqlconn.Client) error {
	for _, k := range t.State.Chunks {
		if k.Copied {
			return nil
		}
	}
	if len(t.State.Indexes) == 0 || len(t.DeferredIndexes) == 0 || t.State.Phase != tabledef.Copying {
		return nil
	}
	have := tabledef.SecondaryIndexes(t.Written)
	there := slices.DeleteFunc(slices.Clone(t.DeferredIndexes), func(x tabledef.Index) bool { return !slices.Contains(have, x) }) // an earlier run may have dropped some
	if len(there) == 0 {
		return nil
	}
	if _, err := c.Exec(ctx, tabledef.DropIndexes(t.Spec.TargetSQL(), there)); err != nil {
		return fmt.Errorf("drop the secondary indexes of %s, to be built again after the rows: %w; option keep-indexes leaves them alone", t.Spec.Target(), err)
	}
	return nil
}

func createTarget(ctx context.Context, t *tabledef.Table, c *mysqlconn.Client) error {
	if t.Create == "" {
		return nil
	}
	for _, sql := range []string{"CREATE DATABASE IF NOT EXISTS " + session.Ident(t.Spec.ToSchema), t.Create} {
		if _, err := c.Exec(ctx, sql); err != nil {
			return fmt.Errorf("create %s in the target: %w; or create it yourself and run the same command again", t.Spec.Target(), err)
		}
	}
	return nil
}

// mustBeEmpty returns an error for a target table with rows.
func mustBeEmpty(ctx context.Context, t *tabledef.Table, c *mysqlconn.Client) error {
	found, err := hasRows(ctx, t, c)
	if err == nil && found {
		err = fmt.Errorf("copy to %s: it has rows already, which no copy has recorded; empty it, or use option restart and option truncate %s",
			t.Spec.Target(), t.Spec.Target())
	}
	return err
}

func hasRows(ctx context.Context, t *tabledef.Table, c *mysqlconn.Client) (found bool, err error) {
	return hasRowsOf(ctx, t, c, "")
}

// hasRowsOf reports whether a target table has rows with a condition in the form of WHERE.
func hasRowsOf(ctx context.Context, t *tabledef.Table, c *mysqlconn.Client, where string) (found bool, err error) {
	if _, err = c.Query(ctx, "SELECT 1 FROM "+t.Spec.TargetSQL()+where+" LIMIT 1", func(mysqlwire.TextRow) error {
		found = true
		return nil
	}); err != nil {
		err = fmt.Errorf("read %s in the target: %w", t.Spec.Target(), err)
	}
	return found, err
}

// recallTable loads the state of earlier runs, and returns an error if they copied something else than this
// run. With --restart no state is loaded.
func recallTable(ctx context.Context, t *tabledef.Table, c *mysqlconn.Client, o *Options, s state.State) (err error) {
	if o.Restart {
		return nil
	}
	t.State, err = s.Load(ctx, c, t.Spec, len(t.Source.Key))
	if state.Absent(err) {
		err = nil
	}
	if err != nil || t.State == nil {
		return err
	}
	switch {
	case t.Create != "":
		return fmt.Errorf("resume the copy to %s: the state in the target records it, but the table does not exist; use option restart", t.Spec.Target())
	case !t.ResumeOrder():
		return fmt.Errorf("resume the copy to %s: it was of other rows:\n  then: %s\n  now:  %s\nrepeat its command to resume it, or use option restart", t.Spec.Target(), t.State.Spec, t.Spec.Text())
	}
	return nil
}

// restartTable empties the target table after recording that in the state. A run that is killed in between
// leaves a table that only another --restart accepts; otherwise an empty table whose state says that it is
// copied would be taken for a copy.
//
// Indexes and keys that an earlier run has left out stay recorded until the table is recorded again.
func restartTable(ctx context.Context, t *tabledef.Table, j *job) error {
	if j.o.merge.emptied() {
		return nil
	}
	if t.Create == "" {
		if err := recallLeftOut(ctx, t, j); err != nil {
			return err
		}
	}
	if err := j.state.Empty(ctx, j.to, t.Spec); err != nil {
		return err
	}
	if err := j.state.ForgetOthers(ctx, j.to, t.Spec); err != nil {
		return err
	}
	if t.Create == "" {
		if _, err := j.to.Exec(ctx, "TRUNCATE TABLE "+t.Spec.TargetSQL()); err != nil {
			return fmt.Errorf("empty %s in the target: %w", t.Spec.Target(), err)
		}
	}
	return nil
}

// recallLeftOut adds the indexes and keys that an earlier run has dropped, or has not created yet, to those
// that are created after the rows.
func recallLeftOut(ctx context.Context, t *tabledef.Table, j *job) error {
	indexes, err := j.state.LeftOut(ctx, j.to, t.Spec)
	if err != nil {
		return err
	}
	for _, x := range indexes {
		if !slices.ContainsFunc(t.DeferredIndexes, func(y tabledef.Index) bool { return y.Name() == x.Name() }) && !strings.Contains(t.Written.Create, " KEY "+x.Name()+" ") {
			t.DeferredIndexes = append(t.DeferredIndexes, x)
		}
	}
	keys, err := j.state.LoadKeys(ctx, j.to, t.Spec)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if !slices.ContainsFunc(t.Keys, func(other tabledef.ForeignKey) bool { return other.Name == k.Name }) {
			t.Keys = append(t.Keys, k)
		}
	}
	return nil
}

// buildTableIndexes adds the secondary indexes that the table lacks, in one ALTER. It holds the table's index
// lock, and checks the epoch after acquiring it.
func buildTableIndexes(ctx context.Context, t *tabledef.Table, c *mysqlconn.Client, l *state.Lease, patience time.Duration) error {
	if len(t.State.Indexes) == 0 {
		return nil
	}
	return state.WithIndexLock(ctx, c, l, t.Spec, patience, func() error { return addMissingIndexes(ctx, t, c) })
}

// useOneThread has the session build indexes with one thread of the server, as MariaDB always does. MySQL has four by default, which leave
// clients little of a small machine.
func useOneThread(ctx context.Context, c *mysqlconn.Client) error {
	if session.IsMariaDB(c.ServerVersion) {
		return nil
	}
	err := session.Set(ctx, c, session.Int("innodb_ddl_threads", 1), session.Int("innodb_parallel_read_threads", 1))
	if session.IsUnseen(err) { // before MySQL 8.0.27
		return nil
	}
	return err
}

// addMissingIndexes adds the indexes that the target's table lacks.
func addMissingIndexes(ctx context.Context, t *tabledef.Table, c *mysqlconn.Client) error {
	there, err := rowstream.ReadTable(ctx, c, t.Spec.ToSchema, t.Spec.ToName)
	if err != nil {
		return err
	}
	have := tabledef.SecondaryIndexes(there)
	missing := slices.DeleteFunc(slices.Clone(t.State.Indexes), func(x tabledef.Index) bool { return slices.Contains(have, x) })
	if len(missing) == 0 {
		return nil
	}
	if _, err := c.Exec(ctx, tabledef.AddIndexes(t.Spec.TargetSQL(), missing)); err != nil {
		return fmt.Errorf("build the secondary indexes of %s: %w; run the same command again to resume from here", t.Spec.Target(), err)
	}
	return nil
}
