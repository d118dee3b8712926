package tabledef

import (
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/rowstream"
)

// TestClosing compares closing for all short texts of parentheses, quotes and a letter with a second way: quoted text is blanked first.
func TestClosing(t *testing.T) {
	blank := func(e string) string {
		b := []byte(e)
		for i := 0; i < len(b); i++ {
			if strings.IndexByte("'`\"", b[i]) < 0 {
				continue
			}
			end := strings.IndexByte(e[i+1:], b[i])
			if end < 0 {
				end = len(e) - i - 2
			}
			for j := i; j <= i+1+end; j++ {
				b[j] = ' '
			}
			i += 1 + end
		}
		return string(b)
	}
	var all func(e string, left int)
	all = func(e string, left int) {
		want, plain := -1, blank(e)
		for i := range plain {
			if plain[i] == ')' && strings.Count(plain[:i], "(") == strings.Count(plain[:i+1], ")") {
				want = i
				break
			}
		}
		if got := closing(e); got != want {
			t.Fatalf("%s: %d, want %d", e, got, want)
		}
		if left > 0 {
			for _, c := range "()'`\"a" {
				all(e+string(c), left-1)
			}
		}
	}
	all("(", 5)
}

// TestComparesGenerated changes each part of a generated column that has to be the same for its values to be compared.
func TestComparesGenerated(t *testing.T) {
	source := rowstream.Column{Name: "g", Type: "varchar", FullType: "varchar(20)", Charset: "latin1", Expression: "`a`"}
	mapped := &Table{Spec: &Spec{Mapping: &Mapping{}}}
	for what, tt := range map[string]struct {
		change func(c *rowstream.Column)
		want   bool
	}{
		"same":          {func(*rowstream.Column) {}, true},
		"case of name":  {func(c *rowstream.Column) { c.Name = "G" }, true},
		"collation":     {func(c *rowstream.Column) { c.Collation = "latin1_bin" }, true},
		"name":          {func(c *rowstream.Column) { c.Name = "h" }, false},
		"expression":    {func(c *rowstream.Column) { c.Expression = "`b`" }, false},
		"type":          {func(c *rowstream.Column) { c.FullType = "varchar(10)" }, false},
		"character set": {func(c *rowstream.Column) { c.Charset = "utf8mb4" }, false},
		"nullable":      {func(c *rowstream.Column) { c.Nullable = true }, false},
	} {
		target := source
		tt.change(&target)
		if got := mapped.ComparesGenerated(&source, &target); got != tt.want {
			t.Errorf("%s: %t", what, got)
		}
		if !(&Table{Spec: &Spec{}}).ComparesGenerated(&source, &target) {
			t.Errorf("%s: a copy as it is does not compare", what)
		}
		if (&Table{Spec: &Spec{Columns: []ColumnSpec{{}}}}).ComparesGenerated(&source, &target) {
			t.Errorf("%s: a copy of chosen columns compares", what)
		}
	}
}

// TestMappingPlan plans columns of the source, renamed, fixed and missing ones.
func TestMappingPlan(t *testing.T) {
	source := &rowstream.Table{Schema: "s", Name: "t", Columns: []rowstream.Column{{Name: "a", Type: "int", Auto: true}, {Name: "b", Type: "enum"}}}
	m := &Mapping{Columns: []MappedColumn{
		{Column: rowstream.Column{Name: "x", Type: "bigint"}, Fixed: []byte("7")},
		{Column: rowstream.Column{Name: "n", Type: "enum"}, From: "b", Conversion: rowstream.Conversion{Zero: true}},
		{Column: rowstream.Column{Name: "y", Type: "int"}},
		{Column: rowstream.Column{Name: "a", Type: "int"}, From: "a"},
	}}
	p, columns, err := m.plan(source)
	if err != nil || len(p.Output) != 4 || len(columns) != 4 {
		t.Fatalf("%+v, %+v, %v", p, columns, err)
	}
	for i, want := range []struct {
		fixed  bool
		value  string
		column int
		write  rowstream.Column
	}{
		{true, "7", 0, rowstream.Column{Name: "x", Type: "bigint"}},
		{false, "", 1, rowstream.Column{Name: "n", Type: "enum", Zero: true}},
		{true, "", 0, rowstream.Column{Name: "y", Type: "int"}},
		{false, "", 0, rowstream.Column{Name: "a", Type: "int"}},
	} {
		o := p.Output[i]
		if (o.From == rowstream.FixedValue) != want.fixed || string(o.Value) != want.value || o.Column != want.column || columns[i] != want.write {
			t.Errorf("column %d: %+v, %+v", i, o, columns[i])
		}
	}
	m.Columns[3].From = "c"
	if _, _, err := m.plan(source); err == nil || !strings.Contains(err.Error(), "no column c") {
		t.Errorf("a missing column: %v", err)
	}
}

// TestTyped maps documents: statements write those of the source's table, whose rows they find by the key, with its collation. Without a document
// on both sides there are none.
func TestTyped(t *testing.T) {
	column := func(name, kind, collation string) rowstream.Column {
		return rowstream.Column{Name: name, Type: kind, Collation: collation, Charset: "latin1"}
	}
	source := &rowstream.Table{Schema: "s", Name: "t", Key: []int{1, 0}, Descending: []bool{true, false}, Columns: []rowstream.Column{
		column("id", "int", ""), column("k", "varchar", "latin1_bin"), column("d", "json", ""), column("x", "longtext", ""),
	}}
	there := &rowstream.Table{Schema: "u", Name: "v", Columns: []rowstream.Column{column("d2", "json", ""), column("id2", "int", ""), column("k2", "varchar", "latin1_bin")}}
	mapped := func(documents, collation, from string) *Table {
		return &Table{Source: source, Spec: &Spec{ToSchema: "u", ToName: "v", Mapping: &Mapping{Columns: []MappedColumn{
			{Column: column("d2", documents, ""), From: from}, {Column: column("id2", "int", ""), From: "id"}, {Column: column("k2", "varchar", collation), From: "k"},
		}}}}
	}
	for name, table := range map[string]*Table{
		"not mapped": {Source: source, Spec: &Spec{}}, "a text in the target": mapped("longtext", "latin1_bin", "d"), "a text in the source": mapped("json", "latin1_bin", "x"),
		"texts": mapped("longtext", "latin1_bin", "x"), "fixed": mapped("json", "latin1_bin", "none"),
	} {
		if got := table.typed(there); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for collation, value := range map[string]string{"latin1_bin": "tare_t.`k2`", "utf8mb4_bin": "CONVERT(tare_t.`k2` USING latin1) COLLATE latin1_bin"} {
		got := mapped("json", collation, "d").typed(there)
		want := "REPLACE INTO `u`.`v` (`d2`, `id2`, `k2`) SELECT tare_s.tare_0, tare_t.`id2`, tare_t.`k2` FROM `u`.`v` AS tare_t JOIN " +
			"(SELECT `d` AS tare_0, `k` AS tare_k0, `id` AS tare_k1 FROM `s`.`t`) AS tare_s ON tare_s.tare_k0 = " + value + " AND tare_s.tare_k1 = tare_t.`id2` WHERE "
		if got == nil || got.Head != want || !slices.Equal(got.keyed.Key, []int{2, 1}) || !slices.Equal(got.keyed.Descending, source.Descending) || there.Key != nil {
			t.Errorf("%s: %+v, want %s", collation, got, want)
		}
	}
}

// TestResumeOrder records the order of chunks and resumes with it; a record of other rows, or of another key, has none.
func TestResumeOrder(t *testing.T) {
	table := func(descending ...bool) *Table {
		return &Table{Spec: &Spec{Schema: "s", Name: "t", ToSchema: "s", ToName: "t"}, Source: &rowstream.Table{Key: make([]int, len(descending)), Descending: descending}}
	}
	for _, order := range [][]bool{{false}, {true}, {false, false}, {true, false}, {false, true}, {true, true}} {
		recorded := table(order...).RecordedSpec()
		next := table(make([]bool, len(order))...)
		next.State = &Recorded{Spec: recorded}
		want := order
		if !slices.Contains(order, true) {
			want = nil
		}
		if !next.ResumeOrder() || !slices.Equal(next.Source.Descending, want) {
			t.Errorf("%v: %q is read as %v", order, recorded, next.Source.Descending)
		}
		one := table(true, false, true)
		if one.State = (&Recorded{Spec: recorded}); want != nil && one.ResumeOrder() {
			t.Errorf("%q is of three columns", recorded)
		}
	}
	for _, rest := range []string{"x", keyOrderMark, keyOrderMark + "up", keyOrderMark + "asc, asc", " " + keyOrderMark + "asc"} {
		next := table(false)
		if next.State = (&Recorded{Spec: next.Spec.Text() + rest}); next.ResumeOrder() {
			t.Errorf("%q is an order", next.State.Spec)
		}
	}
}
