package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestUnloggedCascade reads changes of a table that a foreign key of a followed one refers to. If the log
// lacks the key's changes, reading stops before the change, whether or not the table is followed.
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
			if err := r.cascades.add([]*rowstream.Table{f.table}, 0, false); err != nil {
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

// selfTable returns a reader for a table f.t with a foreign key to itself, whose changes are derived.
func selfTable(t *testing.T, key string) (*logReader, *ChangeBatch, *logBuilder) {
	t.Helper()
	f := described(rowstream.Column{Name: "id", Type: "int", FullType: "int"}, rowstream.Column{Name: "up", Type: "int", FullType: "int", Nullable: true})
	f.table.Key = []int{0}
	f.table.Create = "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `up` int,\n  PRIMARY KEY (`id`),\n  CONSTRAINT `k` FOREIGN KEY (`up`) REFERENCES `t` (`id`)" + key + "\n)"
	if err := rowstream.ResolveCascades([]*rowstream.Table{f.table}); err != nil {
		t.Fatal(err)
	}
	r, b := newLogReader(f, "")
	if err := r.cascades.add([]*rowstream.Table{f.table}, 0, true); err != nil {
		t.Fatal(err)
	}
	log := &logBuilder{offset: 4}
	feed(t, r, log.event(eventFormat, formatBody(false)), log.event(eventQuery, queryBody("f", "BEGIN")),
		log.event(eventTableMap, tableMapBody(9, "t", []mysqlwire.ColumnType{mysqlwire.TypeLong, mysqlwire.TypeLong}, nil)))
	return r, b, log
}

// TestDeriveCascade derives the changes by a foreign key from deletions that permit it, and stops at others.
func TestDeriveCascade(t *testing.T) {
	const setNull = " ON DELETE SET NULL ON UPDATE CASCADE"
	row := func(id, up byte) []byte { return []byte{0, id, 0, 0, 0, up, 0, 0, 0} }
	alone := func(id byte) []byte { return []byte{2, id, 0, 0, 0} }
	for _, tt := range []struct {
		name  string
		kind  ChangeKind
		flags uint16
		key   string
		rows  []byte
		start Position
		want  string // changes, or the reason to stop
	}{
		{"a deletion", Delete, 1, setNull, append(alone(1), row(2, 1)...), Position{}, "delete 1 NULL, cascade NULL 1, delete 2 1, cascade NULL 2"},
		{"a deletion without checks", Delete, 1 | rowsUnchecked, setNull, alone(1), Position{}, "delete 1 NULL"},
		{"a deletion whose cascades are logged", Delete, 1 | rowsSQLKeys, setNull, alone(1), Position{}, "delete 1 NULL"},
		{"a key that acts on updates alone", Delete, 1, " ON UPDATE CASCADE", alone(1), Position{}, "delete 1 NULL"},
		{"another column", Update, 1, setNull, append(row(1, 2), alone(1)...), Position{}, "update 1 2 1 NULL"},
		{"a change of the key", Update, 1, setNull, append(alone(1), alone(2)...), Position{}, "the key of a row was changed, and what the foreign key k of f.t then does"},
		{"a change of the key without checks", Update, 1 | rowsUnchecked, setNull, append(alone(1), alone(2)...), Position{}, "update 1 NULL 2 NULL"},
		{"a change of the key where no key acts", Update, 1, " ON DELETE SET NULL", append(alone(1), alone(2)...), Position{}, "update 1 NULL 2 NULL"},
		{"a row without checks", Insert, 1 | rowsUnchecked, setNull, row(2, 1), Position{}, "a row was written with foreign_key_checks = 0"},
		{"a row that comes to refer to another without checks", Update, rowsUnchecked, setNull, append(row(2, 1), row(2, 3)...), Position{}, "a row was written with foreign_key_checks = 0"},
		{"a row without checks that refers to none", Insert, 1 | rowsUnchecked, setNull, alone(2), Position{}, "insert 2 NULL"},
		{"a row without checks that refers to the same", Update, rowsUnchecked, setNull, append(row(2, 1), row(3, 1)...), Position{}, "update 2 1 3 1"},
		{"before the start", Delete, 1, setNull, alone(1), Position{File: "log.1", Offset: 1000}, ""},
		{"a chain", Delete, 1, " ON DELETE CASCADE", alone(1), Position{}, "what the foreign key k of f.t does to its rows is not logged"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, b, log := selfTable(t, tt.key)
			r.tables[0].start = place{at: tt.start}
			if !tt.start.IsZero() {
				r.maps = map[uint64]*tableMap{}
			}
			body := rowsBody(9, tt.kind, 2, tt.rows)
			binary.LittleEndian.PutUint16(body[6:], tt.flags)
			event := map[ChangeKind]eventType{Insert: eventWriteRows, Update: eventUpdateRows, Delete: eventDeleteRows}[tt.kind]
			if _, err := r.read(log.event(event, body)); err != nil {
				var stop *StopError
				if tt.want == "" || !errors.As(err, &stop) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %q", err, tt.want)
				}
				return
			}
			if got := listChanges(t, b); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestCascadeRollBack rolls back a transaction with derived changes, partly and completely.
func TestCascadeRollBack(t *testing.T) {
	r, b, log := selfTable(t, " ON DELETE SET NULL")
	remove := func(id byte) []byte {
		body := rowsBody(9, Delete, 2, []byte{2, id, 0, 0, 0})
		binary.LittleEndian.PutUint16(body[6:], 1)
		return log.event(eventDeleteRows, body)
	}
	feed(t, r, remove(1), log.event(eventQuery, queryBody("f", "SAVEPOINT s")), remove(2), log.event(eventQuery, queryBody("f", "ROLLBACK TO s")), remove(3))
	if got, want := listChanges(t, b), "delete 1 NULL, cascade NULL 1, delete 3 NULL, cascade NULL 3"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	feed(t, r, log.event(eventQuery, queryBody("f", "ROLLBACK")))
	if len(b.Changes) > 0 || len(b.Tables[0].Bytes) > 0 || b.Tables[0].Rows > 0 {
		t.Errorf("after a rollback the batch has %d changes, %d bytes of %d rows", len(b.Changes), len(b.Tables[0].Bytes), b.Tables[0].Rows)
	}
}

// listChanges lists the changes of a batch for one table.
// listChanges returns the changes of a batch as text. It checks that they use all rows of the batch.
func listChanges(t *testing.T, b *ChangeBatch) string {
	t.Helper()
	rows := make([]int, len(b.Tables))
	for i := range b.Tables {
		if err := b.Tables[i].Check(); err != nil {
			t.Fatalf("table %d: %v", i, err)
		}
		rows[i] = b.Tables[i].Rows
	}
	var all []string
	for _, c := range b.Changes {
		text := []byte(c.Kind.String())
		for _, at := range []int{c.Before, c.After} {
			var row mysqlwire.TextRow
			if at < 0 {
				continue
			}
			if _, err := b.Tables[c.Table].Row(at, &row); err != nil {
				t.Fatal(err)
			}
			rows[c.Table]--
			for _, v := range row {
				if v == nil {
					v = []byte("NULL")
				}
				text = append(append(text, ' '), v...)
			}
		}
		all = append(all, string(text))
	}
	for i, n := range rows {
		if n != 0 {
			t.Errorf("table %d: %d rows of %d have no change", i, n, b.Tables[i].Rows)
		}
	}
	return strings.Join(all, ", ")
}
