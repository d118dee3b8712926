package alter

import (
	"strings"
	"testing"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestMappingOrigins has columns of the new definition that come from one of the old, from none, and from one that is computed.
func TestMappingOrigins(t *testing.T) {
	integer := func(name string) rowstream.Column { return rowstream.Column{Name: name, Type: "int", FullType: "int"} }
	const create = "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  PRIMARY KEY (`id`)\n)"
	source := &rowstream.Table{Columns: []rowstream.Column{integer("id"), integer("a")}, Key: []int{0}, Create: create} // and a computed column, which is not read
	for _, tt := range []struct {
		name, origin string // of the second column of the new definition
		existed      bool
		from, failed string
	}{
		{"a", "a", true, "a", ""},
		{"b", "a", true, "a", ""},
		{"b", "", false, "", ""},
		{"a", "a", false, "", ""}, // DROP COLUMN a, ADD COLUMN a: another one of its name
		{"computed", "computed", true, "", "is computed now"},
	} {
		target := &rowstream.Table{Columns: []rowstream.Column{integer("id"), integer(tt.name)}, Key: []int{0}, Create: create}
		p := &mapper{
			utc: true, fixed: func(*rowstream.Column) ([]byte, error) { return []byte("7"), nil },
			origin: func(name string) (string, bool) {
				if name == "id" {
					return "id", true
				}
				return tt.origin, tt.existed
			},
		}
		m, err := p.newMapping(source, target)
		if tt.failed != "" {
			if err == nil || !strings.Contains(err.Error(), tt.failed) {
				t.Errorf("%s: %v, want %s", tt.name, err, tt.failed)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s from %s: %v", tt.name, tt.origin, err)
			continue
		}
		if c := m.Columns[1]; c.From != tt.from || (tt.from == "") != (string(c.Fixed) == "7") {
			t.Errorf("%s, existed %v: from %q, fixed %q; want from %q", tt.name, tt.existed, c.From, c.Fixed, tt.from)
		}
	}
}

// TestDefaultOfMode has the value of an added CHAR as rows are read, in a server that reads CHAR with its padding.
func TestDefaultOfMode(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		c := d.connect()
		table := session.Ident(d.schema) + ".padded"
		d.exec("CREATE TABLE " + table + " (id INT PRIMARY KEY, added CHAR(5) NOT NULL DEFAULT 'q')")
		target, err := rowstream.ReadTable(t.Context(), c, d.schema, "padded")
		if err == nil {
			err = session.Set(t.Context(), c, session.Value{Name: "sql_mode", SQL: "'PAD_CHAR_TO_FULL_LENGTH'"})
		}
		if err != nil {
			t.Fatal(err)
		}
		defaults := &defaulter{c: c, target: target, name: session.Ident(d.schema) + ".padded_row"}
		if got, err := defaults.value(t.Context(), &target.Columns[1]); string(got) != "q" || err != nil {
			t.Errorf("the column is read as %q: %v", got, err)
		}
		if mode := d.value(c, "SELECT @@SESSION.sql_mode = @@GLOBAL.sql_mode"); mode != "1" {
			t.Error("the session has another sql_mode than the server")
		}
	})
}
