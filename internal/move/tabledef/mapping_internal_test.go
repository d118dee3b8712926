package tabledef

import (
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
