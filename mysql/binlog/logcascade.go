package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// Flags of a rows event.
//
// Specification: MySQL "Rows_event", enum_flag.
const (
	rowsUnchecked = 1 << 1 // the session had foreign_key_checks = 0: keys had no actions
	rowsSQLKeys   = 1 << 4 // actions of foreign keys on rows of other tables are logged as events of those tables
)

// A cascadeLog derives the changes by foreign keys in followed tables if they are not in the log, or stops if
// they cannot be derived. Storage engines that execute the actions themselves do not log them: those of
// MariaDB, and those of MySQL before 9.6 or with innodb_native_foreign_keys. The events of a referenced table
// have a flag if they are logged.
type cascadeLog struct {
	keys map[string][]cascadeRef // by schema, NUL and name of a referenced table, in lower case: the keys
	maps map[uint64][]cascadeRef // likewise, by table id

	event     []cascadeRef // changes by these keys are derived from the rows of the current event
	unchecked bool         // the current event writes rows without checking keys whose changes are derived

	row, other, derived mysqlwire.TextRow
}

// A cascadeRef is a key that changes rows.
type cascadeRef struct {
	text          string // the key and its table, for messages
	child, parent int    // indexes of the tables
	number        int    // index of the Cascade of the child; -1: it cannot be derived
}

// add adds the keys of a followed table. derives reports that the server does not log their actions.
func (l *cascadeLog) add(tables []*rowstream.Table, number int, derives bool) error {
	t := tables[number]
	keys, _, err := rowstream.CreateForeignKeys(t.Create)
	if err != nil {
		return fmt.Errorf("follow %s: %w", t.FullName(), err)
	}
	for i := range keys {
		k := &keys[i]
		if !k.Acts() {
			continue
		}
		schema := k.Schema
		if schema == "" {
			schema = t.Schema
		}
		if l.keys == nil {
			l.keys, l.maps = make(map[string][]cascadeRef), make(map[uint64][]cascadeRef)
		}
		ref := cascadeRef{text: "the foreign key " + k.Name + " of " + t.FullName(), child: number, parent: -1, number: -1}
		if n := slices.IndexFunc(t.Cascades, func(c rowstream.Cascade) bool { return c.Key.Name == k.Name }); derives && n >= 0 && t.Cascades[n].Refused == "" {
			p := t.Cascades[n].Parent
			ref.parent = slices.IndexFunc(tables, func(other *rowstream.Table) bool { return other.Schema == p.Schema && other.Name == p.Name })
			ref.number = n
		}
		name := strings.ToLower(schema + "\x00" + k.Table)
		l.keys[name] = append(l.keys[name], ref)
	}
	return nil
}

// tableMap processes the table map of any table.
func (l *cascadeLog) tableMap(id uint64, schema, name []byte) {
	if len(l.keys) == 0 {
		return
	}
	delete(l.maps, id)
	if refs, ok := l.keys[strings.ToLower(string(schema)+"\x00"+string(name))]; ok {
		l.maps[id] = refs
	}
}

// checkCascade stops at changed rows of a table that a foreign key of a followed one refers to, if the
// resulting changes by the key are neither logged nor derived.
func (r *logReader) checkCascade(id uint64, e *event, kind ChangeKind) error {
	l := &r.cascades
	l.event, l.unchecked = l.event[:0], false
	if len(l.keys) == 0 || r.scan != nil {
		return nil
	}
	flags, m := binary.LittleEndian.Uint16(e.body[6:]), r.maps[id]
	l.unchecked = flags&rowsUnchecked != 0 && kind != Delete && m != nil
	if kind == Insert || flags&(rowsUnchecked|rowsSQLKeys) != 0 {
		return nil
	}
	for _, ref := range l.maps[id] {
		switch {
		case ref.number < 0 || ref.filtered(r.tables):
			return r.unloggedCascade(ref, "what "+ref.text+" does to its rows is not logged")
		case r.before(&r.tables[ref.child]): // its rows are later than the change, unless that is only prepared
			if r.xas.open != nil && !slices.Contains(r.xas.open.missed, ref.child) {
				r.xas.open.missed = append(r.xas.open.missed, ref.child)
			}
		case m == nil || m.table != ref.parent:
			return r.unloggedCascade(ref, "what "+ref.text+" does to its rows is not logged, and the table that it refers to is followed from a later position only")
		default:
			l.event = append(l.event, ref)
		}
	}
	return nil
}

// filtered reports whether rows of a key's tables are filtered or not followed.
func (ref cascadeRef) filtered(tables []followedTable) bool {
	return ref.parent < 0 || tables[ref.child].filter != nil || tables[ref.parent].filter != nil
}

func (r *logReader) unloggedCascade(ref cascadeRef, what string) error {
	return r.stop(StopSettings, r.tables[ref.child].table.FullName(), what,
		"copy the tables again without option follow, or from MySQL 9.6 or later with innodb_native_foreign_keys = OFF", nil)
}

// cascade appends the changes by foreign keys that result from a change, or stops if they cannot be derived
// from it.
func (r *logReader) cascade(out *ChangeBatch, c Change) error {
	l := &r.cascades
	if l.unchecked {
		if err := r.uncheckedRow(out, c); err != nil {
			return err
		}
	}
	if len(l.event) == 0 {
		return nil
	}
	if _, err := out.Tables[c.Table].Row(c.Before, &l.row); err != nil {
		return err
	}
	if c.Kind == Update {
		return r.keyChanged(out, c)
	}
	for _, ref := range l.event {
		if k := &r.tables[ref.child].table.Cascades[ref.number]; k.OnDelete() {
			l.derive(out, ref, k)
		}
	}
	return nil
}

// derive appends the changes by a foreign key that result from the deletion of the row l.row: as a row of its
// table with only the values of the key's columns. Rows with NULL in one of them refer to no row.
func (l *cascadeLog) derive(out *ChangeBatch, ref cascadeRef, k *rowstream.Cascade) {
	t := &out.Tables[ref.child]
	l.derived = slices.Grow(l.derived[:0], t.Columns)[:t.Columns]
	clear(l.derived)
	for i, column := range k.Columns {
		v := l.row[k.Referred[i]]
		if v == nil {
			return
		}
		l.derived[column] = v
	}
	out.Changes = append(out.Changes, Change{Table: int32(ref.child), Kind: Cascaded, Cascade: uint8(ref.number), Before: len(t.Bytes), After: -1})
	t.AppendRow(l.derived)
}

// errUnderivable is the cause of the StopError for changes by foreign keys that cannot be derived.
var errUnderivable = errors.New("the log does not have it")

// underivable sets the cause of a StopError.
func underivable(err error) error {
	if stop := new(StopError); errors.As(err, &stop) {
		stop.Err = errUnderivable
	}
	return err
}

// keyChanged stops at an update of columns that are referenced by keys with an action.
func (r *logReader) keyChanged(out *ChangeBatch, c Change) error {
	l := &r.cascades
	if _, err := out.Tables[c.Table].Row(c.After, &l.other); err != nil {
		return err
	}
	for _, ref := range l.event {
		k := &r.tables[ref.child].table.Cascades[ref.number]
		if !k.OnUpdate() {
			continue
		}
		for _, column := range k.Referred {
			if string(l.row[column]) != string(l.other[column]) || (l.row[column] == nil) != (l.other[column] == nil) {
				return underivable(r.stop(StopSettings, r.tables[c.Table].table.FullName(),
					"the key of a row was changed, and what "+ref.text+" then does to its rows is not logged",
					"copy the tables again with option restart, without option follow where keys change", nil))
			}
		}
	}
	return nil
}

// uncheckedRow stops at a row that was written with foreign_key_checks = 0 and refers to another one. The
// check would lock the referenced row; without the lock, the row may have been written while a transaction
// that is logged later deleted the referenced row, and did not see it.
func (r *logReader) uncheckedRow(out *ChangeBatch, c Change) error {
	l, t := &r.cascades, r.tables[c.Table].table
	if _, err := out.Tables[c.Table].Row(c.After, &l.row); err != nil {
		return err
	}
	if c.Kind == Update {
		if _, err := out.Tables[c.Table].Row(c.Before, &l.other); err != nil {
			return err
		}
	}
	for i := range t.Cascades {
		if k := &t.Cascades[i]; l.derives(int(c.Table), i) && k.OnDelete() && l.refers(k, c.Kind == Update) {
			return underivable(r.stop(StopSettings, t.FullName(),
				"a row was written with foreign_key_checks = 0: whether the foreign key "+k.Key.Name+" has changed it since is not in the log",
				"copy the tables again with option restart, and write to it with foreign_key_checks = 1 while they are followed", nil))
		}
	}
	return nil
}

// refers reports whether the row l.row refers to a row by a key and, for an update, did not before.
func (l *cascadeLog) refers(k *rowstream.Cascade, update bool) bool {
	same := update
	for _, column := range k.Columns {
		if l.row[column] == nil {
			return false
		}
		same = same && l.other[column] != nil && string(l.row[column]) == string(l.other[column])
	}
	return !same
}

// derives reports whether the changes of a table's cascade are derived.
func (l *cascadeLog) derives(child, number int) bool {
	for _, refs := range l.keys {
		for _, ref := range refs {
			if ref.child == child && ref.number == number {
				return true
			}
		}
	}
	return false
}
