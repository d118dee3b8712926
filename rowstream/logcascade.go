package rowstream

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Flags of a rows event.
//
// Specification: MySQL "Rows_event", enum_flag.
const (
	rowsUnchecked = 1 << 1 // the session had foreign_key_checks = 0: keys did nothing
	rowsSQLKeys   = 1 << 4 // what foreign keys did to rows of other tables is logged as events of theirs
)

// A cascadeLog checks that the changes which foreign keys make in followed tables are in the log. Storage engines that execute
// them on their own do not log them: MariaDB's and those of MySQL before 9.6 or with innodb_native_foreign_keys. The events of
// the table that a key refers to have a flag where they are logged.
type cascadeLog struct {
	keys map[string]string // schema, NUL, name of a table that is referred to, in lower case: the key and its table, for people
	maps map[uint64]string // ids of the table maps of such tables: likewise
}

// add adds the keys of a followed table.
func (l *cascadeLog) add(t *Table) error {
	keys, _, err := CreateForeignKeys(t.Create)
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
			l.keys, l.maps = make(map[string]string), make(map[uint64]string)
		}
		l.keys[strings.ToLower(schema+"\x00"+k.Table)] = "the foreign key " + k.Name + " of " + t.FullName()
	}
	return nil
}

// tableMap takes the table map of any table.
func (l *cascadeLog) tableMap(id uint64, schema, name []byte) {
	if len(l.keys) == 0 {
		return
	}
	delete(l.maps, id)
	if key, ok := l.keys[strings.ToLower(string(schema)+"\x00"+string(name))]; ok {
		l.maps[id] = key
	}
}

// checkCascade stops where rows of a table were changed that a foreign key of a followed one refers to, and the changes
// which the key has made are not logged.
func (r *logReader) checkCascade(id uint64, e *event, kind ChangeKind) error {
	key, ok := r.cascades.maps[id]
	if !ok || kind == Insert || r.scan != nil || binary.LittleEndian.Uint16(e.body[6:])&(rowsUnchecked|rowsSQLKeys) != 0 {
		return nil
	}
	return r.stop(StopSettings, "", "what "+key+" does to its rows is not logged",
		"copy the tables again without --follow, or from MySQL 9.6 or later with innodb_native_foreign_keys = OFF", nil)
}
