package tabledef

import (
	"strings"
	"testing"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestClauses adds clauses of each kind to the specs of tables: the text of the spec, or the error.
func TestClauses(t *testing.T) {
	add := map[string]func(specs []Spec, clause string) error{
		"where": AddWhere, "shard": AddShard, "columns": AddColumns,
		"split": func(specs []Spec, clause string) error {
			second := []Spec{specs[0], specs[1]}
			return AddSplit([][]Spec{specs, second}, clause)
		},
		"merge": func(specs []Spec, clause string) error {
			second := []Spec{specs[0], specs[1]}
			return AddMerge([][]Spec{specs, second}, []string{"a", "b"}, clause)
		},
	}
	for kind := range add {
		for clause, want := range map[string]string{"d.b": "is not of the form", "d.b:": "is not of the form", ": x": "is not copied", "d.c: x": "is about table d.c, which is not copied", "b: x": "not copied"} {
			specs := []Spec{{Schema: "d", Name: "a"}, {Schema: "d", Name: "b"}}
			if err := add[kind](specs, clause); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %q: %v, want %q", kind, clause, err, want)
			}
		}
	}
	for _, c := range []struct{ kind, clauses, want string }{ // clauses separated by |; an error begins with !
		{"where", "d.b: a > 5", "table d.b; where a > 5"},
		{"where", " d.b :a > 5|d.b: b", "table d.b; where (a > 5) AND (b)"},
		{"where", "d.b: a IN (1, (2)) AND b <> ')' /* ) */ AND `)` = 1", "table d.b; where a IN (1, (2)) AND b <> ')' /* ) */ AND `)` = 1"},
		{"where", "d.b: a > 5) OR (TRUE", "!has a parenthesis that is not opened or not closed"},
		{"where", "d.b: (a > 5", "!has a parenthesis that is not opened or not closed"},
		{"shard", "d.b: id = 2/4", "table d.b; shard id=2/4"},
		{"shard", "d.b: id", "!is not of the form column=i/n"},
		{"shard", "d.b: id=1/4|d.b: id=1/4", "!has a shard already, by id"},
		{"shard", "d.b: id=0/4", "!shard"},
		{"shard", "d.b: id=5/4", "!shard"},
		{"columns", "d.b: id, name as title ,x", "table d.b; columns id, name as title, x"},
		{"columns", "d.b: id|d.b: b AS c", "table d.b; columns id, b as c"},
		{"columns", "d.b: a b", `!column "a b" is neither`},
		{"columns", "d.b: a,,b", `!column "" is neither`},
		{"columns", "d.b: a of b", "!is neither"},
		{"columns", "d.b: a as b c", "!is neither"},
		{"split", "d.b: hash(id)", "table d.b; shard id=1/2"},
		{"split", "d.b: HASH ( `id` )", "table d.b; shard id=1/2"},
		{"split", "d.b: all", "table d.b"},
		{"split", "d.b: hash(id, x)", "!hash has one column"},
		{"split", "d.b: hash()", "!names no column"},
		{"split", "d.b: mod(id)", "!is not of the form"},
		{"split", "d.b: range(id, 5)", "table d.b; where (`id` < 5 OR `id` IS NULL)"},
		{"split", "d.b: range(id)", "!has 0 bounds; 2 shards need 1"},
		{"split", "d.b: range(id, 5, 6)", "!has 2 bounds"},
		{"split", "d.b: range(id, x)", "!is neither a number nor text"},
		{"split", "d.b: hash(id)|d.b: hash(id)", "!only-shard selects"},
		{"merge", "d.b: hash(id)", "table d.b; from source 1 of 2 by hash(id)"},
		{"merge", "d.b: all", "!does not define which rows a source has"},
		{"merge", "d.b: Range(`id`, 5)", "table d.b; from source 1 of 2 by range(id, 5)"},
		{"merge", "d.b: lookup(id, d.l)", "!lookup divides the rows of one source"},
		{"merge", "d.b: hash(id", "!is not of the form"},
	} {
		specs := []Spec{{Schema: "d", Name: "a"}, {Schema: "d", Name: "b"}}
		var err error
		for clause := range strings.SplitSeq(c.clauses, "|") {
			if err == nil {
				err = add[c.kind](specs, clause)
			}
		}
		if want, refused := strings.CutPrefix(c.want, "!"); refused != (err != nil) || err != nil && !strings.Contains(err.Error(), want) || err == nil && specs[1].Text() != want || specs[0].Text() != "table d.a" {
			t.Errorf("%s %q: %q, %q, %v, want %q", c.kind, c.clauses, specs[0].Text(), specs[1].Text(), err, c.want)
		}
	}
	for _, s := range []Spec{{Schema: "d", Name: "b", Where: "x"}, {Schema: "d", Name: "b", Columns: []ColumnSpec{{"a", "a"}}}} {
		if err := AddMerge([][]Spec{{s}, {s}}, []string{"a", "b"}, "d.b: hash(id)"); err == nil || !strings.Contains(err.Error(), "copied whole") {
			t.Errorf("%s: %v", s.Text(), err)
		}
	}
	for list, want := range map[string]string{"d.a, d.b=e.c": "d.a-d.a d.b-e.c", "d.a,d.a": "!named twice", "a": "!a", "d.a=b": "!b", "d.a=": "!schema.table", "": "!schema.table", "d.a,": "!schema.table"} {
		specs, err := ParseTables(list)
		var all []string
		for i := range specs {
			specs[i].Defaults()
			all = append(all, specs[i].Source()+"-"+specs[i].Target())
		}
		if text, refused := strings.CutPrefix(want, "!"); refused != (err != nil) || err != nil && !strings.Contains(err.Error(), text) || err == nil && strings.Join(all, " ") != text {
			t.Errorf("%q: %v, %v, want %q", list, all, err, want)
		}
	}
}

// TestMappedSums has the expressions by which a column of a mapping is compared: of the source's column, of a constant, and of NULL.
func TestMappedSums(t *testing.T) {
	column := rowstream.Column{Name: "c", Type: "int", FullType: "int"}
	for _, c := range []struct {
		m        MappedColumn
		from, to string
	}{
		{MappedColumn{Column: column, From: "a"}, "", ""},
		{MappedColumn{Column: column, From: "a", Conversion: rowstream.Conversion{From: "x", To: "y"}}, "x", "y"},
		{MappedColumn{Column: column}, "NULL", "`c`"},
		{MappedColumn{Column: column, Fixed: []byte("it's")}, session.Literal("it's"), "`c`"},
		{MappedColumn{Column: column, Fixed: []byte{}}, "_binary''", "`c`"},
	} {
		if from, to := c.m.Sums(); from != c.from || to != c.to {
			t.Errorf("%+v: %s and %s, want %s and %s", c.m, from, to, c.from, c.to)
		}
	}
}
