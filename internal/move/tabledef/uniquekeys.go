package tabledef

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/taredb/tare/internal/mysql/createtable"
	"github.com/taredb/tare/mysql/rowstream"
)

// followable returns an error if a table cannot be followed, and sets the plan for its events. there is the
// target's table.
func (t *Table) followable(there *rowstream.Table) error {
	match, err := predicate(t.Source, t.Spec.Where)
	if err != nil {
		return err
	}
	t.Events = t.Plan
	if match != nil {
		events := rowstream.Plan{Match: match}
		if t.Plan != nil {
			events.Where, events.Output = t.Plan.Where, t.Plan.Output
		}
		t.Events = &events
	}
	if t.Events != nil {
		if _, err := rowstream.NewFilter(t.Events, len(t.Source.Columns)); err != nil {
			return fmt.Errorf("the condition %q of %s cannot be followed: %w", t.Spec.Where, t.Spec.Source(), err)
		}
	}
	key, err := t.findKey()
	if err != nil {
		return err
	}
	t.Key, t.Unique = key, uniqueKeys(there.Create)
	return t.sameUnique()
}

// findKey returns the source's key as numbers of the target's columns.
func (t *Table) findKey() ([]int, error) {
	var key []int
	for _, k := range t.Source.Key {
		at := k
		if t.Plan != nil && t.Plan.Output != nil {
			at = slices.IndexFunc(t.Plan.Output, func(o rowstream.Output) bool { return o.Column == k && o.From == rowstream.ColumnValue })
		}
		if at < 0 {
			return nil, fmt.Errorf("column %s of %s is of its key and is not copied: to follow changes, the target must know which row they are about; add it to option columns",
				t.Source.Columns[k].Name, t.Spec.Source())
		}
		key = append(key, at)
	}
	return key, nil
}

// sameUnique returns an error for a target whose unique keys differ from the source's: an additional one
// would displace rows, and without the source's key a change would not find its row.
func (t *Table) sameUnique() error {
	rename := make(map[string]string) // the source's names to the target's
	for i := range t.Source.Columns {
		rename[t.Source.Columns[i].Name] = t.Source.Columns[i].Name
	}
	if t.Plan != nil {
		for i, o := range t.Plan.Output {
			if o.From == rowstream.ColumnValue {
				rename[t.Source.Columns[o.Column].Name] = t.Target.Columns[i].Name
			}
		}
	}
	source := uniqueKeys(t.Source.Create)
	for i := range source {
		for j := range source[i] {
			if to, ok := rename[source[i][j].column]; ok {
				source[i][j].column = to
			}
		}
	}
	identities := t.identities(source)
	for _, u := range t.Unique {
		if !slices.ContainsFunc(source, u.equal) && !slices.ContainsFunc(identities, u.contains) {
			return fmt.Errorf("follow %s: the target has the unique key %v and the source does not: changes that are applied could replace other rows; drop it, or add it to the source",
				t.Spec.Target(), u)
		}
	}
	var own uniqueKey
	for _, k := range t.Key {
		own = append(own, keyPart{column: t.Target.Columns[k].Name})
	}
	if slices.ContainsFunc(t.Unique, own.equal) {
		return nil
	}
	for _, u := range t.Unique {
		if key := t.keyOf(u); key != nil && slices.ContainsFunc(identities, u.contains) {
			t.Key = key
			return nil
		}
	}
	return fmt.Errorf("follow %s: the target has no unique key %v, which identifies rows in the source: add it", t.Spec.Target(), own)
}

// identities returns those of the source's unique keys, by the target's names, that have whole columns alone which are never NULL: two rows of
// the source are never equal in them. They are of use for a target with another definition alone.
func (t *Table) identities(source []uniqueKey) (all []uniqueKey) {
	if t.Spec.Mapping == nil {
		return nil
	}
	for _, u := range source {
		if t.keyOf(u) != nil {
			all = append(all, u)
		}
	}
	return all
}

// keyOf returns the columns of a key of the target as numbers of the columns that are written; nil if not all are whole columns of the source
// that are never NULL.
func (t *Table) keyOf(u uniqueKey) (key []int) {
	for _, p := range u {
		n := slices.IndexFunc(t.Target.Columns, func(c rowstream.Column) bool {
			return p.rest == "" && p.column != "" && strings.EqualFold(c.Name, p.column)
		})
		if n < 0 || t.Target.Columns[n].Nullable || t.Plan != nil && t.Plan.Output != nil && t.Plan.Output[n].From != rowstream.ColumnValue {
			return nil
		}
		key = append(key, n)
	}
	return key
}

// A uniqueKey has the columns of a unique index.
type uniqueKey []keyPart

// A keyPart is a column of an index, or the indexed part of it: a prefix or an expression.
type keyPart struct{ column, rest string }

func (u uniqueKey) String() string {
	names := make([]string, len(u))
	for i, p := range u {
		names[i] = p.column + p.rest
	}
	return "(" + strings.Join(names, ", ") + ")"
}

func (u uniqueKey) equal(v uniqueKey) bool {
	return slices.EqualFunc(u, v, func(p, q keyPart) bool { return strings.EqualFold(p.column, q.column) && p.rest == q.rest })
}

// contains reports whether a key has all columns of v: its values differ where those of v do.
func (u uniqueKey) contains(v uniqueKey) bool {
	return !slices.ContainsFunc(v, func(p keyPart) bool {
		return !slices.ContainsFunc(u, func(q keyPart) bool { return strings.EqualFold(p.column, q.column) && p.rest == q.rest })
	})
}

// uniquePart matches a column of an index, with the length of a prefix.
var uniquePart = regexp.MustCompile("(?s)^`((?:[^`]|``)+)`(\\(\\d+\\))?(?: ASC| DESC)?$")

// uniqueKeys parses the unique indexes, including the primary key, from SHOW CREATE TABLE.
func uniqueKeys(create string) []uniqueKey {
	var all []uniqueKey
	for _, k := range createtable.Keys(create) {
		if k.Kind != "PRIMARY KEY" && k.Kind != "UNIQUE KEY" {
			continue
		}
		var u uniqueKey
		for _, part := range k.Parts {
			p := uniquePart.FindStringSubmatch(part)
			if p == nil { // equal expressions have equal texts
				u = append(u, keyPart{rest: part})
				continue
			}
			u = append(u, keyPart{column: strings.ReplaceAll(p[1], "``", "`"), rest: p[2]})
		}
		all = append(all, u)
	}
	return all
}
