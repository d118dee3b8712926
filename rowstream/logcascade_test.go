package rowstream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/taredb/tare/mysqlwire"
)

// TestUnloggedCascade reads changes of a table that a foreign key of a followed one refers to. Where the log does not have
// what the key did, reading stops before the change, followed or not.
func TestUnloggedCascade(t *testing.T) {
	const set = ",\n  CONSTRAINT `k` FOREIGN KEY (`id`) REFERENCES `P` (`id`) ON UPDATE CASCADE"
	types := []mysqlwire.ColumnType{mysqlwire.TypeLong}
	for _, tt := range []struct {
		name  string
		kind  ChangeKind
		flags uint16
		keys  string
		table string
		stops bool
	}{
		{"an update", Update, 1, set, "p", true},
		{"a delete", Delete, 0, set, "P", true},
		{"an insert", Insert, 1, set, "P", false},
		{"logged", Update, 1 | rowsSQLKeys, set, "P", false},
		{"without checks", Delete, 1 | rowsUnchecked, set, "P", false},
		{"another table", Delete, 1, set, "q", false},
		{"a key that acts on nothing", Update, 1, strings.Replace(set, "CASCADE", "RESTRICT", 1), "P", false},
		{"a key to itself", Delete, 1, strings.Replace(set, "`P`", "`t`", 1), "t", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := described(intColumn)
			f.table.Create = "CREATE TABLE `t` (\n  `id` int" + tt.keys + "\n)"
			r, b := newLogReader(f, "")
			if err := r.cascades.add(f.table); err != nil {
				t.Fatal(err)
			}
			log := &logBuilder{offset: 4}
			rows := []byte{0, 1, 0, 0, 0}
			if tt.kind == Update {
				rows = append(rows, 0, 2, 0, 0, 0)
			}
			body := rowsBody(9, tt.kind, 1, rows)
			binary.LittleEndian.PutUint16(body[6:], tt.flags)
			feed(t, r, log.event(eventFormat, formatBody(false)), log.event(eventQuery, queryBody("f", "BEGIN")), log.event(eventTableMap, tableMapBody(9, tt.table, types, nil)))
			event := map[ChangeKind]eventType{Insert: eventWriteRows, Update: eventUpdateRows, Delete: eventDeleteRows}[tt.kind]
			_, err := r.read(log.event(event, body))
			var stop *StopError
			if errors.As(err, &stop) != tt.stops || tt.stops && stop.Reason != StopSettings || len(b.Changes) > 0 {
				t.Errorf("%v, %d changes", err, len(b.Changes))
			}
			if want := fmt.Sprintf("what the foreign key k of %s does to its rows is not logged", f.table.FullName()); tt.stops && !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}
