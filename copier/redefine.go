package copier

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/taredb/tare/binlog"
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

// A redefinition is how a table that may have been altered is gone on with.
type redefinition struct {
	definition        // the present one, or the noted one
	past       bool   // it is the noted one
	anew       bool   // it is to be noted
	change     string // the statements, for people
	empty      bool   // the target must be, since the source was emptied
	keys       bool   // its foreign keys are others than the noted ones
}

// redefine finds out by which definition a table is gone on with. before is the source's position before
// it was described as now.
func (r *run) redefine(ctx context.Context, source binlog.Follower, spec *TableSpec, now definition, before binlog.Position) (*redefinition, error) {
	var noted *definition
	var err error
	if !r.o.Restart {
		noted, err = r.state.definition(ctx, r.to, spec)
	}
	if err != nil {
		return nil, err
	}
	if noted == nil {
		return r.firstDefinition(ctx, source, spec, now)
	}
	same := noted.sameShape(&now)
	asNoted := &redefinition{definition: now}
	asNoted.upto = noted.upto
	from, err := r.followedFrom(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := r.definedSince(ctx, source, spec, noted, from); err != nil {
		return nil, err
	}
	if same && noted.stopped == "" {
		return asNoted, nil
	}
	if from.IsZero() {
		known, _, err := r.state.phaseOf(ctx, r.to, spec)
		switch {
		case err != nil:
			return nil, err
		case same:
			return asNoted, nil
		case known == "": // killed before the first row
			return &redefinition{definition: now, anew: true}, nil
		}
		return nil, fmt.Errorf("table %s was altered on the source while its rows were being copied, so they have two forms:\n  %s\nuse --restart",
			spec.source(), strings.Join(differencesBetween("before", "now", noted.table, now.table), "\n  "))
	}
	end, err := source.NamedPosition(ctx)
	if err != nil {
		return nil, err
	}
	changes, err := source.SchemaChanges(ctx, []*rowstream.Table{now.table}, from, end)
	if err != nil {
		return nil, err
	}
	changes = withoutIgnored(changes, r.o.IgnoreStatements)
	changes = slices.DeleteFunc(changes, func(c binlog.SchemaChange) bool {
		before, known := c.At.Before(noted.upto)
		return before && known && !noted.upto.IsZero()
	})
	d := &redefinition{definition: now, anew: true}
	d.upto = end
	if err := d.judge(spec, changes, noted, before); err != nil {
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
func (d *redefinition) judge(spec *TableSpec, changes []binlog.SchemaChange, noted *definition, before binlog.Position) error {
	restart := func(format string, a ...any) error {
		return fmt.Errorf("table %s cannot be resumed: %s; use --restart", spec.source(), fmt.Sprintf(format, a...))
	}
	same := noted.sameShape(&d.definition)
	var said []string
	significant := 0
	for _, c := range changes {
		said = append(said, c.SQL)
		switch {
		case c.At.Reaches(before):
			return fmt.Errorf("table %s is being altered just now (%s): run the same command again", spec.source(), c.SQL)
		case c.Kind == binlog.ChangeOther:
			return restart("the log does not record what happened to its rows in: %s", c.SQL)
		case c.Kind == binlog.ChangeIndex:
			continue
		}
		truncate := c.Kind == binlog.ChangeTruncate
		if c.Rows && significant == 0 && (truncate || !same) {
			d.definition, d.past, d.anew, d.change = *noted, true, false, c.SQL
			return nil
		}
		if c.Rows && significant > 0 {
			return restart("it was altered more than once, and written between: %s", strings.Join(said, "; "))
		}
		significant++
		d.empty = d.empty || truncate
	}
	if was, is := keyNames(noted.table), keyNames(d.table); was != is {
		return restart("its key was (%s) and is (%s), by which its chunks were cut", was, is)
	}
	d.change = strings.Join(said, "; ")
	return nil
}

// firstDefinition is for a table whose definition no run has recorded. Rows that an earlier run
// has copied without one are as the source describes them now only if nothing has changed since.
func (r *run) firstDefinition(ctx context.Context, source binlog.Follower, spec *TableSpec, now definition) (*redefinition, error) {
	d := &redefinition{definition: now, anew: true}
	if r.o.Restart {
		return d, nil
	}
	known, copied, err := r.state.phaseOf(ctx, r.to, spec)
	if err != nil || known == "" || copied.IsZero() {
		return d, err
	}
	end, err := source.NamedPosition(ctx)
	if err != nil {
		return nil, err
	}
	changes, err := source.SchemaChanges(ctx, []*rowstream.Table{now.table}, copied, end)
	if err != nil {
		return nil, err
	}
	d.upto = end
	for _, c := range withoutIgnored(changes, r.o.IgnoreStatements) {
		if c.Kind != binlog.ChangeIndex {
			return nil, fmt.Errorf("table %s was altered (%s) after its rows were copied without --follow, which records no definition: copy it again with --restart", spec.source(), c.SQL)
		}
	}
	return d, nil
}

// definedSince refuses a position that is before changes of a definition which the recorded one
// contains, with rows before them: in which form those are is not recorded.
func (r *run) definedSince(ctx context.Context, source binlog.Follower, spec *TableSpec, noted *definition, from binlog.Position) error {
	if from.IsZero() || noted.upto.IsZero() || from.Reaches(noted.upto) {
		return nil
	}
	changes, err := source.SchemaChanges(ctx, []*rowstream.Table{noted.table}, from, noted.upto)
	if err != nil {
		return err
	}
	for _, c := range withoutIgnored(changes, r.o.IgnoreStatements) {
		if c.Rows && c.Kind != binlog.ChangeIndex {
			return fmt.Errorf("table %s was altered (%s) after %s, and only its later definition is recorded: copy it again with --restart", spec.source(), c.SQL, from)
		}
	}
	return nil
}

// followedFrom is the position before which all changes of a table are in the target: zero when
// its rows are still to be copied.
func (r *run) followedFrom(ctx context.Context, spec *TableSpec) (binlog.Position, error) {
	known, copied, err := r.state.phaseOf(ctx, r.to, spec)
	if err != nil {
		return copied, err
	}
	sources, err := r.sources(ctx)
	if err != nil {
		return copied, err
	}
	followed, err := r.state.followedTables(ctx, r.to, sources)
	if absent(err) {
		err = nil
	}
	if err != nil {
		return copied, err
	}
	if positions, ok := followed[spec.target()]; ok {
		from, err := latest(append(positions, copied)...)
		if err != nil {
			err = fmt.Errorf("follow the changes of %s: %w", spec.source(), err)
		}
		return from, err
	}
	if known != finished {
		return binlog.Position{}, nil
	}
	return copied, nil
}

// describeFollowed describes a table of a copy that follows, by the definition that it is gone on with.
func (r *run) describeFollowed(ctx context.Context, source binlog.Follower, spec *TableSpec) (*table, error) {
	before, err := source.NowPosition(ctx)
	if err != nil {
		return nil, err
	}
	var now definition
	if now.table, err = r.from.Describe(ctx, spec.Schema, spec.Name); err != nil {
		return nil, err
	}
	if now.layout, err = source.Layout(ctx, now.table); err != nil {
		return nil, err
	}
	d, err := r.redefine(ctx, source, spec, now, before)
	if err != nil {
		return nil, err
	}
	t, err := describeAs(ctx, d.table, r.to, r.o, spec)
	switch differs := new(differsError); {
	case errors.As(err, &differs) && d.past:
		return nil, fmt.Errorf("%w\nrow changes before %q are not applied yet: restore the earlier definition, and run the same command again; or use --restart", err, d.change)
	case errors.As(err, &differs) && d.change != "":
		return nil, fmt.Errorf("%w\nthe source's table was altered (%s), and everything before that is in the target: alter the target the same way%s, and run the same command again to resume",
			err, d.change, alteration(spec, d.table, differs.there))
	case err != nil:
		return nil, err
	}
	t.redefined = d
	if noted, err := r.state.definition(ctx, r.to, spec); err != nil {
		return nil, err
	} else if noted != nil && !r.o.Restart {
		d.keys = !sameForeignKeys(noted.table, now.table)
	}
	if d.empty {
		if err := t.mustBeEmpty(ctx, r.to); err != nil {
			return nil, fmt.Errorf("the source's %s was truncated (%s), and everything before that is in the target: TRUNCATE TABLE %s there, and run the same command again to resume",
				spec.source(), d.change, spec.targetSQL())
		}
	}
	return t, nil
}

// columnLine is a line of SHOW CREATE TABLE that defines a column.
var columnLine = regexp.MustCompile("^  (`((?:[^`]|``)+)` .*?),?$")

// alteration is the statement that gives the target's table the source's columns, as a part of a
// sentence; empty where it gets others.
func alteration(spec *TableSpec, source, there *rowstream.Table) string {
	if len(spec.Columns) > 0 {
		return ""
	}
	lines := make(map[string]string)
	for line := range strings.Lines(source.Create) {
		if m := columnLine.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			lines[strings.ToLower(strings.ReplaceAll(m[2], "``", "`"))] = m[1]
		}
	}
	var parts []string
	added, dropped := false, false
	for i := range source.Columns {
		s := &source.Columns[i]
		n := columnNumber(there, s.Name)
		line := lines[strings.ToLower(s.Name)]
		switch {
		case line == "":
			return ""
		case n < 0:
			parts, added = append(parts, "ADD COLUMN "+line), true
		case !sameColumn(s, &there.Columns[n]):
			parts = append(parts, "MODIFY COLUMN "+line)
		}
	}
	for i := range there.Columns {
		if columnNumber(source, there.Columns[i].Name) < 0 {
			parts, dropped = append(parts, "DROP COLUMN "+rowstream.Ident(there.Columns[i].Name)), true
		}
	}
	if len(parts) == 0 || added && dropped { // which may be one column under another name
		return ""
	}
	return ", such as by ALTER TABLE " + spec.targetSQL() + " " + strings.Join(parts, ", ")
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
		if t.source.FullName() == stop.Table {
			if err := r.state.stoppedBy(ctx, r.to, t.spec, stop.SQL); err != nil {
				return errors.Join(&said, err)
			}
		}
	}
	return &said
}
