package tabledef

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/rowstream"
)

// A Definition is the source's description of a table: the layout of its rows from the position on where
// following resumes. It is stored in the target, so that a run detects that the table was altered meanwhile.
type Definition struct {
	Table   *rowstream.Table // as it was described
	Layout  []int            // of its columns
	Upto    binlog.Position  // changes of the definition before it are contained; zero: none
	Stopped string           // the statement about the table that has ended a run; empty: none has
}

// SameShape reports whether rows of both are read alike.
func (d *Definition) SameShape(b *Definition) bool {
	return reflect.DeepEqual(d.Table.Columns, b.Table.Columns) && slices.Equal(d.Layout, b.Layout) && slices.Equal(d.Table.Key, b.Table.Key)
}

// A Redefinition is how copying continues with a table that may have been altered.
type Redefinition struct {
	Definition        // the present one, or the noted one
	Past       bool   // it is the noted one
	Anew       bool   // it is to be noted
	Change     string // the statements, for people
	Empty      bool   // the target must be, since the source was emptied
	Keys       bool   // its foreign keys are others than the noted ones
}

// columnLine is a line of SHOW CREATE TABLE that defines a column.
var columnLine = regexp.MustCompile("^  (`((?:[^`]|``)+)` .*?),?$")

// Alteration is the statement that gives the target's table the source's columns, as a part of a
// sentence; empty where it gets others.
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
			parts, dropped = append(parts, "DROP COLUMN "+rowstream.Ident(there.Columns[i].Name)), true
		}
	}
	if len(parts) == 0 || added && dropped { // which may be one column under another name
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
