package copier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/copier/state"
	"github.com/taredb/tare/copier/tabledef"
	"github.com/taredb/tare/rowstream"
	"github.com/taredb/tare/sqldigest"
)

// A followed table that is altered on the source ends the run, with all before that place in the
// target. The same command goes on once both sides agree again. It must know what rows look like
// in the log between the place where following goes on and its end, of which only the definition
// at the one (noted in the target) and at the other (the source's present one) can be known:
//
//	goes on from ── rows as noted ── ALTER ── rows as now ── end
//
//   - No rows come before the change: the present definition holds for all, and the change is passed over,
//     provided that the target agrees with it.
//   - Rows come before it: a run that was killed has left them. They are read by the noted definition, up to
//     the change, which ends the run in the usual way.
//   - Rows come between two changes: nobody knows what they look like.
//
// What takes rows away or exchanges them as a whole is not passed over; but for TRUNCATE, when
// the target is empty too.

// redefine finds out by which definition a table is gone on with. before is the source's position before
// it was described as now.
func (r *run) redefine(ctx context.Context, source binlog.Follower, spec *tabledef.Spec, now tabledef.Definition, before binlog.Position) (*tabledef.Redefinition, error) {
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
			return &tabledef.Redefinition{Definition: now, Anew: true}, nil
		}
		return nil, fmt.Errorf("table %s was altered on the source while its rows were being copied, so they have two forms:\n  %s\nuse --restart",
			spec.Source(), strings.Join(tabledef.DifferencesBetween("before", "now", noted.Table, now.Table), "\n  "))
	}
	end, err := source.NamedPosition(ctx)
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
	d := &tabledef.Redefinition{Definition: now, Anew: true}
	d.Upto = end
	if err := judge(d, spec, changes, noted, before); err != nil {
		return nil, err
	}
	return d, nil
}

// withoutIgnored leaves out changes by statements that the operator vouches for. Rows before such
// a one are before the next change.
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

// judge looks at the changes between the place where following goes on and the end of the log.
func judge(d *tabledef.Redefinition, spec *tabledef.Spec, changes []binlog.SchemaChange, noted *tabledef.Definition, before binlog.Position) error {
	restart := func(format string, a ...any) error {
		return fmt.Errorf("table %s cannot be resumed: %s; use --restart", spec.Source(), fmt.Sprintf(format, a...))
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
			d.Definition, d.Past, d.Anew, d.Change = *noted, true, false, c.SQL
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

// firstDefinition is for a table whose definition no run has recorded. Rows that an earlier run
// has copied without one are as the source describes them now only if nothing has changed since.
func (r *run) firstDefinition(ctx context.Context, source binlog.Follower, spec *tabledef.Spec, now tabledef.Definition) (*tabledef.Redefinition, error) {
	d := &tabledef.Redefinition{Definition: now, Anew: true}
	if r.o.Restart {
		return d, nil
	}
	known, copied, err := r.state.PhaseOf(ctx, r.to, spec)
	if err != nil || known == "" || copied.IsZero() {
		return d, err
	}
	end, err := source.NamedPosition(ctx)
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
			return nil, fmt.Errorf("table %s was altered (%s) after its rows were copied without --follow, which records no definition: copy it again with --restart", spec.Source(), c.SQL)
		}
	}
	return d, nil
}

// definedSince refuses a position that is before changes of a definition which the recorded one
// contains, with rows before them: in which form those are is not recorded.
func (r *run) definedSince(ctx context.Context, source binlog.Follower, spec *tabledef.Spec, noted *tabledef.Definition, from binlog.Position) error {
	if from.IsZero() || noted.Upto.IsZero() || from.Reaches(noted.Upto) {
		return nil
	}
	changes, err := source.SchemaChanges(ctx, []*rowstream.Table{noted.Table}, from, noted.Upto)
	if err != nil {
		return err
	}
	for _, c := range withoutIgnored(changes, r.o.IgnoreStatements) {
		if c.Rows && c.Kind != binlog.ChangeIndex {
			return fmt.Errorf("table %s was altered (%s) after %s, and only its later definition is recorded: copy it again with --restart", spec.Source(), c.SQL, from)
		}
	}
	return nil
}

// followedFrom is the position before which all changes of a table are in the target: zero when
// its rows are still to be copied.
func (r *run) followedFrom(ctx context.Context, spec *tabledef.Spec) (binlog.Position, error) {
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
	if positions, ok := followed[spec.Target()]; ok {
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

// describeFollowed describes a table of a copy that follows, by the definition that it is gone on with.
func (r *run) describeFollowed(ctx context.Context, source binlog.Follower, spec *tabledef.Spec) (*tabledef.Table, error) {
	before, err := source.NowPosition(ctx)
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
	t, err := tabledef.DescribeAs(ctx, d.Table, r.to, r.o.describing(), spec)
	switch differs := new(tabledef.DiffersError); {
	case errors.As(err, &differs) && d.Past:
		return nil, fmt.Errorf("%w\nrow changes before %q are not applied yet: restore the earlier definition, and run the same command again; or use --restart", err, d.Change)
	case errors.As(err, &differs) && d.Change != "":
		return nil, fmt.Errorf("%w\nthe source's table was altered (%s), and everything before that is in the target: alter the target the same way%s, and run the same command again to resume",
			err, d.Change, tabledef.Alteration(spec, d.Table, differs.There))
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
		if err := mustBeEmpty(t, ctx, r.to); err != nil {
			return nil, fmt.Errorf("the source's %s was truncated (%s), and everything before that is in the target: TRUNCATE TABLE %s there, and run the same command again to resume",
				spec.Source(), d.Change, spec.TargetSQL())
		}
	}
	return t, nil
}

// schemaStopped notes what has ended following, when it was a change of a table's definition, and says how to
// go on.
func (r *run) schemaStopped(ctx context.Context, err error) error {
	var stop *binlog.StopError
	if !errors.As(err, &stop) || stop.Reason != binlog.StopSchema || stop.SQL == "" {
		return err
	}
	said := *stop
	said.Try = "all before it is in the target: do the same there, unless it is about nothing that is copied, and run the same command again: it resumes here"
	if stop.Change == binlog.ChangeOther {
		said.Try = "the log does not list what it did to rows: copy again with --restart"
	}
	if stop.Digest != "" {
		said.Try += "; if it changes nothing in the table, continue after it with --ignore-statement " + stop.Digest
	}
	for _, t := range r.tables {
		if t.Source.FullName() == stop.Table {
			if err := r.state.StoppedBy(ctx, r.to, t.Spec, stop.SQL); err != nil {
				return errors.Join(&said, err)
			}
		}
	}
	return &said
}
