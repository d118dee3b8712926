package copier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
	"github.com/taredb/tare/mysql/sqldigest"
)

// An ALTER of a followed table on the source ends the run, with all changes before that position in the
// target. The same command resumes once both sides agree again. It must know the form of the rows in the log
// between the position where following resumes and its end. Only two definitions are known: the one at the
// first position (recorded in the target) and the one at the end (the source's current one):
//
//	resume at ── rows as recorded ── ALTER ── rows as now ── end
//
//   - No rows precede the change: the current definition applies to all rows, and the change is skipped if
//     the target agrees with it.
//   - Rows precede it, left by a run that was killed: they are decoded by the recorded definition up to the
//     change, which ends the run as usual.
//   - Rows between two changes: their form is unknown, and the table is refused.
//
// Changes that remove or replace a table's rows as a whole are refused, except TRUNCATE if the target is
// empty too.

// A redefiner decides by which definition a table is followed.
type redefiner struct{ *job }

// redefine returns the definition with which a table is resumed. before is a position of the source before it
// was described as now.
func (r *redefiner) redefine(ctx context.Context, source binlog.Follower, spec *tabledef.Spec, now tabledef.Definition, before binlog.Position) (*tabledef.Redefinition, error) {
	var noted *tabledef.Definition
	var err error
	if !r.o.Restart {
		noted, err = r.state.Definition(ctx, r.to, spec)
	}
	if err != nil {
		return nil, err
	}
	if noted == nil {
		return r.firstDefinition(ctx, source, spec, now)
	}
	same := noted.SameShape(&now)
	asNoted := &tabledef.Redefinition{Definition: now}
	asNoted.Upto = noted.Upto
	from, err := r.followedFrom(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := r.definedSince(ctx, source, spec, noted, from); err != nil {
		return nil, err
	}
	if same && noted.Stopped == "" {
		return asNoted, nil
	}
	if from.IsZero() {
		known, _, err := r.state.PhaseOf(ctx, r.to, spec)
		switch {
		case err != nil:
			return nil, err
		case same:
			return asNoted, nil
		case known == "": // killed before the first row
			return &tabledef.Redefinition{Definition: now, Persist: true}, nil
		}
		return nil, fmt.Errorf("table %s was altered on the source while its rows were being copied, so they have two forms:\n  %s\nuse option restart",
			spec.Source(), strings.Join(tabledef.DifferencesBetween("before", "now", noted.Table, now.Table), "\n  "))
	}
	end, err := source.GTIDPosition(ctx)
	if err != nil {
		return nil, err
	}
	changes, err := source.SchemaChanges(ctx, []*rowstream.Table{now.Table}, from, end)
	if err != nil {
		return nil, err
	}
	changes = withoutIgnored(changes, r.o.IgnoreStatements)
	changes = slices.DeleteFunc(changes, func(c binlog.SchemaChange) bool {
		before, known := c.At.Before(noted.Upto)
		return before && known && !noted.Upto.IsZero()
	})
	d := &tabledef.Redefinition{Definition: now, Persist: true}
	d.Upto = end
	if err := judge(d, spec, changes, noted, before); err != nil {
		return nil, err
	}
	return d, nil
}

// withoutIgnored removes changes by statements that the operator has declared harmless. Rows before such a
// change count as rows before the next one.
func withoutIgnored(changes []binlog.SchemaChange, ignore []sqldigest.Digest) (kept []binlog.SchemaChange) {
	rows := false
	for _, c := range changes {
		rows = rows || c.Rows
		if slices.ContainsFunc(ignore, func(d sqldigest.Digest) bool { return d.String() == c.Digest }) {
			continue
		}
		c.Rows, rows = rows, false
		kept = append(kept, c)
	}
	return kept
}

// judge decides, from the changes between the position where following resumes and the end of the log,
// whether and how the table can be resumed.
func judge(d *tabledef.Redefinition, spec *tabledef.Spec, changes []binlog.SchemaChange, noted *tabledef.Definition, before binlog.Position) error {
	restart := func(format string, a ...any) error {
		return fmt.Errorf("table %s cannot be resumed: %s; use option restart", spec.Source(), fmt.Sprintf(format, a...))
	}
	same := noted.SameShape(&d.Definition)
	var said []string
	significant := 0
	for _, c := range changes {
		said = append(said, c.SQL)
		switch {
		case c.At.Reaches(before):
			return fmt.Errorf("table %s is being altered just now (%s): run the same command again", spec.Source(), c.SQL)
		case c.Kind == binlog.ChangeOther:
			return restart("the log does not record what happened to its rows in: %s", c.SQL)
		case c.Kind == binlog.ChangeIndex:
			continue
		}
		truncate := c.Kind == binlog.ChangeTruncate
		if c.Rows && significant == 0 && (truncate || !same) {
			d.Definition, d.Past, d.Persist, d.Change = *noted, true, false, c.SQL
			return nil
		}
		if c.Rows && significant > 0 {
			return restart("it was altered more than once, and written between: %s", strings.Join(said, "; "))
		}
		significant++
		d.Empty = d.Empty || truncate
	}
	if was, is := tabledef.KeyNames(noted.Table), tabledef.KeyNames(d.Table); was != is {
		return restart("its key was (%s) and is (%s), by which its chunks were cut", was, is)
	}
	d.Change = strings.Join(said, "; ")
	return nil
}

// firstDefinition returns the definition of a table for which no run has recorded one. If an earlier run
// copied rows, the current definition applies to them only if nothing has changed since.
func (r *redefiner) firstDefinition(ctx context.Context, source binlog.Follower, spec *tabledef.Spec, now tabledef.Definition) (*tabledef.Redefinition, error) {
	d := &tabledef.Redefinition{Definition: now, Persist: true}
	if r.o.Restart {
		return d, nil
	}
	known, copied, err := r.state.PhaseOf(ctx, r.to, spec)
	if err != nil || known == "" || copied.IsZero() {
		return d, err
	}
	end, err := source.GTIDPosition(ctx)
	if err != nil {
		return nil, err
	}
	changes, err := source.SchemaChanges(ctx, []*rowstream.Table{now.Table}, copied, end)
	if err != nil {
		return nil, err
	}
	d.Upto = end
	for _, c := range withoutIgnored(changes, r.o.IgnoreStatements) {
		if c.Kind != binlog.ChangeIndex {
			return nil, fmt.Errorf("table %s was altered (%s) after its rows were copied without option follow, which records no definition: copy it again with option restart", spec.Source(), c.SQL)
		}
	}
	return d, nil
}

// definedSince returns an error if the position is before changes that the recorded definition contains, with
// rows before those changes: the form of these rows is not recorded.
func (r *redefiner) definedSince(ctx context.Context, source binlog.Follower, spec *tabledef.Spec, noted *tabledef.Definition, from binlog.Position) error {
	if from.IsZero() || noted.Upto.IsZero() || from.Reaches(noted.Upto) {
		return nil
	}
	changes, err := source.SchemaChanges(ctx, []*rowstream.Table{noted.Table}, from, noted.Upto)
	if err != nil {
		return err
	}
	for _, c := range withoutIgnored(changes, r.o.IgnoreStatements) {
		if c.Rows && c.Kind != binlog.ChangeIndex {
			return fmt.Errorf("table %s was altered (%s) after %s, and only its later definition is recorded: copy it again with option restart", spec.Source(), c.SQL, from)
		}
	}
	return nil
}

// followedFrom returns the position before which all changes of a table are in the target; zero if rows are
// still to be copied.
func (r *redefiner) followedFrom(ctx context.Context, spec *tabledef.Spec) (binlog.Position, error) {
	known, copied, err := r.state.PhaseOf(ctx, r.to, spec)
	if err != nil {
		return copied, err
	}
	sources, err := r.sources(ctx)
	if err != nil {
		return copied, err
	}
	followed, err := r.state.FollowedTables(ctx, r.to, sources)
	if state.Absent(err) {
		err = nil
	}
	if err != nil {
		return copied, err
	}
	if positions, ok := followed[spec.StateTarget()]; ok {
		from, err := state.Latest(append(positions, copied)...)
		if err != nil {
			err = fmt.Errorf("follow the changes of %s: %w", spec.Source(), err)
		}
		return from, err
	}
	if known != tabledef.Finished {
		return binlog.Position{}, nil
	}
	return copied, nil
}

// describe describes a table of a copy that follows, with the definition by which it is resumed.
func (r *redefiner) describe(ctx context.Context, source binlog.Follower, spec *tabledef.Spec) (*tabledef.Table, error) {
	before, err := source.CurrentPosition(ctx)
	if err != nil {
		return nil, err
	}
	var now tabledef.Definition
	if now.Table, err = r.from.Describe(ctx, spec.Schema, spec.Name); err != nil {
		return nil, err
	}
	if now.Layout, err = source.Layout(ctx, now.Table); err != nil {
		return nil, err
	}
	d, err := r.redefine(ctx, source, spec, now, before)
	if err != nil {
		return nil, err
	}
	t, err := tabledef.DescribeAs(ctx, d.Table, r.to, r.describing(), spec)
	switch differs := new(tabledef.DiffersError); {
	case errors.As(err, &differs) && d.Past:
		return nil, fmt.Errorf("%w\nrow changes before %q are not applied yet: restore the earlier definition, and run the same command again; or use option restart", err, d.Change)
	case errors.As(err, &differs) && d.Change != "":
		return nil, fmt.Errorf("%w\nthe source's table was altered (%s), and everything before that is in the target: alter the target the same way%s, and run the same command again to resume",
			err, d.Change, tabledef.Alteration(spec, d.Table, differs.Target))
	case err != nil:
		return nil, err
	}
	t.Redefined = d
	if noted, err := r.state.Definition(ctx, r.to, spec); err != nil {
		return nil, err
	} else if noted != nil && !r.o.Restart {
		d.Keys = !tabledef.SameForeignKeys(noted.Table, now.Table)
	}
	if d.Empty {
		empty, where := emptied(t)
		switch found, err := hasRowsOf(ctx, t, r.to, where); {
		case err != nil:
			return nil, err
		case found:
			return nil, fmt.Errorf("the source's %s was truncated (%s), and everything before that is in the target: %s there, and run the same command again to resume",
				spec.Source(), d.Change, empty)
		}
	}
	return t, nil
}

// emptied returns the statement that deletes the rows of the source in the target, and the condition of its rows in the form of WHERE: of a merge
// the table has rows of other sources.
func emptied(t *tabledef.Table) (statement, where string) {
	if t.Target.Owned == nil {
		return "TRUNCATE TABLE " + t.Spec.TargetSQL(), ""
	}
	where = " WHERE " + t.Target.Owned.Condition()
	return "DELETE FROM " + t.Spec.TargetSQL() + where, where
}

// stopped records the change of a table's definition that ended following, if err is one, and adds to
// the error how to resume.
func (r *redefiner) stopped(ctx context.Context, err error) error {
	var stop *binlog.StopError
	if !errors.As(err, &stop) || stop.Reason != binlog.StopSchema || stop.SQL == "" {
		return err
	}
	said := *stop
	said.Try = "all before it is in the target: do the same there, unless it is about nothing that is copied, and run the same command again: it resumes here"
	if stop.Change == binlog.ChangeOther {
		said.Try = "the log does not list what it did to rows: copy again with option restart"
	}
	if stop.Digest != "" {
		said.Try += "; if it changes nothing in the table, continue after it with option ignore-statement " + stop.Digest
	}
	for _, t := range r.tables {
		if t.Source.FullName() == stop.Table {
			if t.Target.Owned != nil && stop.Change == binlog.ChangeTruncate {
				statement, _ := emptied(t)
				said.Try = strings.Replace(said.Try, "do the same there", statement+" there, where the table has rows of other sources", 1)
			}
			if err := r.state.StoppedBy(ctx, r.to, t.Spec, stop.SQL); err != nil {
				return errors.Join(&said, err)
			}
		}
	}
	return &said
}
