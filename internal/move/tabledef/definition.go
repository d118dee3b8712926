package tabledef

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// A Definition is the source's description of a table: the layout of its rows from the position at which
// following resumes. It is stored in the target, so that a run detects that the table was altered meanwhile.
type Definition struct {
	Table   *rowstream.Table // as it was described
	Layout  []int            // of its columns
	Upto    binlog.Position  // changes of the definition before it are included; zero: none
	Stopped string           // the statement on the table that stopped a run; empty: none
}

// SameShape reports whether rows of both definitions are decoded alike.
func (d *Definition) SameShape(b *Definition) bool {
	return reflect.DeepEqual(d.Table.Columns, b.Table.Columns) && slices.Equal(d.Layout, b.Layout) && slices.Equal(d.Table.Key, b.Table.Key)
}

// A Redefinition is the definition with which copying continues for a table that may have been altered.
type Redefinition struct {
	Definition        // the current one, or the recorded one
	Past       bool   // it is the recorded one
	Persist    bool   // it must be recorded
	Change     string // the statements, for messages
	Empty      bool   // the target must be empty, since the source was emptied
	Keys       bool   // its foreign keys differ from the recorded ones
}

// columnLine matches a line of SHOW CREATE TABLE that defines a column.
var columnLine = regexp.MustCompile("^  (`((?:[^`]|``)+)` .*?),?$")

// Alteration returns the statement that gives the target's table the source's columns, as a part of a
// sentence; empty if the spec selects columns.
func Alteration(spec *Spec, source, there *rowstream.Table) string {
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
		n := ColumnNumber(there, s.Name)
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
		if ColumnNumber(source, there.Columns[i].Name) < 0 {
			parts, dropped = append(parts, "DROP COLUMN "+session.Ident(there.Columns[i].Name)), true
		}
	}
	if len(parts) == 0 || added && dropped { // may be one column under another name
		return ""
	}
	return ", such as by ALTER TABLE " + spec.TargetSQL() + " " + strings.Join(parts, ", ")
}

// SameForeignKeys reports whether two descriptions of a table have the same foreign keys.
func SameForeignKeys(a, b *rowstream.Table) bool {
	keys, _, err := rowstream.CreateForeignKeys(a.Create)
	others, _, errOther := rowstream.CreateForeignKeys(b.Create)
	return err == nil && errOther == nil && reflect.DeepEqual(keys, others)
}
