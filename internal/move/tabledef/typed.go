package tabledef

import (
	"slices"
	"strconv"
	"strings"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/rowstream"
)

// A Typed writes the values of a target whose types their text does not have: a DECIMAL, DATE or BLOB within a document of MySQL's JSON. The
// rows are written from text first. Then the server, which has both tables, writes them again with the documents of the source. These may be newer
// than the rows: then a change follows.
type Typed struct {
	Head string // of a statement, which a condition on the target's columns follows

	keyed *rowstream.Table // the target, with the key of the source
}

// typed returns how documents are written to a target of the same server; nil: there are none.
func (t *Table) typed(there *rowstream.Table) *Typed {
	m := t.Spec.Mapping
	if m == nil {
		return nil
	}
	var names, values, selected, joined []string
	found := false
	for i := range m.Columns {
		c := &m.Columns[i]
		name := session.Ident(c.Column.Name)
		value := "tare_t." + name
		if n := ColumnNumber(t.Source, c.From); n >= 0 && c.Column.Type == "json" && t.Source.Columns[n].Type == "json" {
			found = true
			as := "tare_" + strconv.Itoa(i)
			value = "tare_s." + as
			selected = append(selected, session.Ident(c.From)+" AS "+as)
		}
		names, values = append(names, name), append(values, value)
	}
	if !found {
		return nil
	}
	keyed := *there
	keyed.Key, keyed.Descending = nil, t.Source.Descending
	for i, k := range t.Source.Key {
		from := &t.Source.Columns[k]
		n := slices.IndexFunc(m.Columns, func(c MappedColumn) bool { return c.From == from.Name })
		to := &m.Columns[n].Column
		value := "tare_t." + session.Ident(to.Name)
		if from.Collation != to.Collation && from.Collation != "" { // the index of the source is used
			value = "CONVERT(" + value + " USING " + from.Charset + ") COLLATE " + from.Collation
		}
		as := "tare_k" + strconv.Itoa(i)
		selected, joined = append(selected, session.Ident(from.Name)+" AS "+as), append(joined, "tare_s."+as+" = "+value)
		keyed.Key = append(keyed.Key, ColumnNumber(there, to.Name))
	}
	return &Typed{
		Head: "REPLACE INTO " + t.Spec.TargetSQL() + " (" + strings.Join(names, ", ") + ") SELECT " + strings.Join(values, ", ") + " FROM " + t.Spec.TargetSQL() +
			" AS tare_t JOIN (SELECT " + strings.Join(selected, ", ") + " FROM " + t.Source.SQLName() + ") AS tare_s ON " + strings.Join(joined, " AND ") + " WHERE ",
		keyed: &keyed,
	}
}

// Chunk returns the statement for the rows of a chunk.
func (y *Typed) Chunk(c rowstream.Chunk) (string, error) {
	condition, err := y.keyed.ChunkCondition(c)
	return y.Head + condition, err
}

// SQL returns the statements for rows by their keys, from those for the target.
func (y *Typed) SQL(s *rowstream.RowSQL) *rowstream.RowSQL {
	if y == nil {
		return nil
	}
	return s.Headed(y.Head)
}
