package rowstream

import (
	"strings"
	"testing"
)

// cascadeTable returns a table with an integer key id, text columns a and b of 10 characters, and a double d, and more of its CREATE TABLE.
func cascadeTable(name string, more ...string) *Table {
	text := Column{Type: "varchar", FullType: "varchar(10)", Charset: "utf8mb4", Collation: "utf8mb4_bin", Nullable: true}
	t := &Table{Schema: "s", Name: name, Key: []int{0}, Columns: []Column{{Name: "id", Type: "int", FullType: "int"}, text, text, {Name: "d", Type: "double", FullType: "double"}}}
	t.Columns[1].Name, t.Columns[2].Name = "a", "b"
	lines := append([]string{"`id` int NOT NULL", "`a` varchar(10)", "`b` varchar(10)", "`d` double", "PRIMARY KEY (`id`)"}, more...)
	t.Create = "CREATE TABLE `" + name + "` (\n  " + strings.Join(lines, ",\n  ") + "\n) ENGINE=InnoDB"
	return t
}

// TestCascadesRefused has foreign keys whose changes can be derived, and one key for each reason for which they cannot.
func TestCascadesRefused(t *testing.T) {
	const key = "CONSTRAINT `k` FOREIGN KEY (`a`) REFERENCES `p` (`a`) ON DELETE CASCADE"
	unique := "UNIQUE KEY `u` (`a`)"
	change := func(of int, do func(*Column)) func(p, c *Table) {
		return func(_, c *Table) { do(&c.Columns[of]) }
	}
	for _, tt := range []struct {
		name          string
		parent, child []string // lines of CREATE TABLE
		change        func(parent, child *Table)
		want          string // the reason, or its start; empty: the key is followed
	}{
		{"a cascade", []string{unique}, []string{key}, nil, ""},
		{"of the primary key", nil, []string{"CONSTRAINT `k` FOREIGN KEY (`id`) REFERENCES `p` (`id`) ON DELETE CASCADE"}, nil, ""},
		{"with the schema", []string{unique}, []string{strings.Replace(key, "`p`", "`s`.`p`", 1)}, nil, ""},
		{"in other case", []string{unique}, []string{strings.Replace(key, "`p`", "`S`.`P`", 1)}, nil, ""},
		{"columns in other case", []string{unique}, []string{strings.Replace(key, "(`a`) R", "(`A`) R", 1)}, nil, ""},
		{"of another schema", []string{unique}, []string{strings.Replace(key, "`p`", "`r`.`p`", 1)}, nil, "r.p, which it refers to, is not followed"},
		{"of another table", []string{unique}, []string{strings.Replace(key, "`p`", "`q`", 1)}, nil, "s.q, which it refers to, is not followed"},
		{"on update", []string{unique}, []string{strings.Replace(key, "DELETE", "UPDATE", 1)}, nil, ""},
		{"a column that is not read", []string{unique}, []string{key}, func(_, c *Table) { c.Columns[1].Name = "x" }, "a column of it is generated"},
		{"a column that is not read of the parent", []string{unique}, []string{key}, func(p, _ *Table) { p.Columns[1].Name = "x" }, "a column of it is generated"},
		{"another type", []string{unique}, []string{key}, change(1, func(c *Column) { c.Type = "char" }), "column a is of another type"},
		{"unsigned", []string{unique}, []string{key}, change(1, func(c *Column) { c.Unsigned = true }), "column a is of another type"},
		{"another collation", []string{unique}, []string{key}, change(1, func(c *Column) { c.Collation = "utf8mb4_general_ci" }), "column a is of another type"},
		{"a longer text", []string{unique}, []string{key}, change(1, func(c *Column) { c.FullType = "varchar(20)" }), ""},
		{"a longer integer", nil, []string{"CONSTRAINT `k` FOREIGN KEY (`id`) REFERENCES `p` (`id`) ON DELETE CASCADE"}, change(0, func(c *Column) { c.FullType = "int(11)" }), ""},
		{"a longer number", []string{unique}, []string{key}, func(p, c *Table) {
			p.Columns[1].Type, p.Columns[1].FullType, c.Columns[1].Type, c.Columns[1].FullType = "decimal", "decimal(5,2)", "decimal", "decimal(6,2)"
		}, "column a is of another type"},
		{"a double", []string{"UNIQUE KEY `u` (`d`)"}, []string{"CONSTRAINT `k` FOREIGN KEY (`d`) REFERENCES `p` (`d`) ON DELETE CASCADE"}, nil, "column d is of the type double"},
		{"an ENUM", []string{unique}, []string{key}, func(p, c *Table) {
			p.Columns[1].Type, p.Columns[1].FullType, c.Columns[1].Type, c.Columns[1].FullType = "enum", "enum('a')", "enum", "enum('a')"
		}, "column a is of the type enum('a')"},
		{"not unique", []string{"KEY `u` (`a`)"}, []string{key}, nil, "the columns that it refers to are not unique"},
		{"unique with another column", []string{"UNIQUE KEY `u` (`a`,`b`)"}, []string{key}, nil, "the columns that it refers to are not unique"},
		{"unique in another column", []string{"UNIQUE KEY `u` (`b`)"}, []string{key}, nil, "the columns that it refers to are not unique"},
		{"unique, descending", []string{"UNIQUE KEY `u` (`a` DESC)"}, []string{key}, nil, ""},
		{"two columns", []string{"UNIQUE KEY `u` (`b`,`a`)"}, []string{"CONSTRAINT `k` FOREIGN KEY (`a`,`b`) REFERENCES `p` (`a`,`b`) ON DELETE CASCADE"}, nil, ""},
		{"versioned", []string{unique}, []string{key}, func(p, _ *Table) { p.Create += " WITH SYSTEM VERSIONING" }, "a table is system-versioned"},
		{"SET DEFAULT", []string{unique}, []string{strings.Replace(key, "CASCADE", "SET DEFAULT", 1)}, nil, "SET DEFAULT is not known"},
		{"SET DEFAULT on update", []string{unique}, []string{key + " ON UPDATE SET DEFAULT"}, nil, "SET DEFAULT is not known"},
		{"SET NULL", []string{unique}, []string{strings.Replace(key, "CASCADE", "SET NULL", 1)}, nil, ""},
		{"SET NULL beside a generated column", []string{unique}, []string{strings.Replace(key, "CASCADE", "SET NULL", 1)}, func(_, c *Table) { c.Generated = []Column{{Name: "g"}} }, "its table computes values"},
		{"SET NULL beside a unique expression", []string{unique}, []string{strings.Replace(key, "CASCADE", "SET NULL", 1), "UNIQUE KEY `x` ((`a` + 1))"}, nil, "its table computes values"},
		{"SET NULL beside an expression", []string{unique}, []string{strings.Replace(key, "CASCADE", "SET NULL", 1), "KEY `x` ((`a` + 1))"}, nil, ""},
		{"a cascade beside a generated column", []string{unique}, []string{key}, func(_, c *Table) { c.Generated = []Column{{Name: "g"}} }, ""},
		{"two cascades over one column", []string{unique}, []string{key, "CONSTRAINT `l` FOREIGN KEY (`a`) REFERENCES `p` (`a`) ON DELETE CASCADE"}, nil, ""},
		{"a cascade and SET NULL over one column", []string{unique}, []string{key, "CONSTRAINT `l` FOREIGN KEY (`A`) REFERENCES `p` (`a`) ON DELETE SET NULL"}, nil, "it shares a column with l"},
		{"a cascade and SET NULL over two columns", []string{unique, "UNIQUE KEY `v` (`b`)"}, []string{key, "CONSTRAINT `l` FOREIGN KEY (`b`) REFERENCES `p` (`b`) ON DELETE SET NULL"}, nil, ""},
		{"a key on update over the same column", []string{unique}, []string{key, "CONSTRAINT `l` FOREIGN KEY (`a`) REFERENCES `p` (`a`) ON UPDATE SET NULL"}, nil, ""},
		{"a second level", []string{unique}, []string{key, "CONSTRAINT `self` FOREIGN KEY (`b`) REFERENCES `c` (`id`) ON DELETE SET NULL"}, func(_, c *Table) { c.Columns[2] = c.Columns[0]; c.Columns[2].Name = "b" }, "a row that it deletes makes self of s.c change others"},
		{"a second level on update", []string{unique}, []string{key, "CONSTRAINT `self` FOREIGN KEY (`b`) REFERENCES `c` (`id`) ON UPDATE SET NULL"}, func(_, c *Table) { c.Columns[2] = c.Columns[0]; c.Columns[2].Name = "b" }, ""},
		{"SET NULL of a referred column", []string{unique}, []string{strings.Replace(key, "CASCADE", "SET NULL", 1), "UNIQUE KEY `w` (`a`)", "CONSTRAINT `self` FOREIGN KEY (`b`) REFERENCES `c` (`a`) ON UPDATE CASCADE"}, nil, "a row that it changes makes self of s.c change others"},
		{"SET NULL of another column", []string{unique}, []string{strings.Replace(key, "CASCADE", "SET NULL", 1), "CONSTRAINT `self` FOREIGN KEY (`id`) REFERENCES `c` (`id`) ON UPDATE CASCADE"}, nil, ""},
	} {
		parent, child := cascadeTable("p", tt.parent...), cascadeTable("c", tt.child...)
		if tt.change != nil {
			tt.change(parent, child)
		}
		child.Cascades = []Cascade{{Refused: "of an earlier call"}}
		if err := ResolveCascades([]*Table{parent, child}); err != nil || len(parent.Cascades) != 0 || len(child.Cascades) == 0 {
			t.Errorf("%s: %v, %d keys", tt.name, err, len(child.Cascades))
			continue
		}
		c := &child.Cascades[0]
		if (c.Refused == "") != (tt.want == "") || !strings.HasPrefix(c.Refused, tt.want) {
			t.Errorf("%s: refused with %q, want %q", tt.name, c.Refused, tt.want)
		}
		if c.Refused == "" && (c.Parent != parent || len(c.Columns) != len(c.Key.Columns) || len(c.Referred) != len(c.Columns)) {
			t.Errorf("%s: %+v", tt.name, c)
		}
		if on := strings.Contains(tt.child[0], "ON DELETE"); c.OnDelete() != on || c.OnUpdate() != strings.Contains(tt.child[0], "ON UPDATE") {
			t.Errorf("%s: it acts on deletes: %t, on updates: %t", tt.name, c.OnDelete(), c.OnUpdate())
		}
	}
	idle := cascadeTable("c", "CONSTRAINT `k` FOREIGN KEY (`a`) REFERENCES `p` (`a`) ON DELETE NO ACTION ON UPDATE RESTRICT")
	if err := ResolveCascades([]*Table{cascadeTable("p"), idle}); err != nil || len(idle.Cascades) != 0 {
		t.Errorf("a key that changes nothing: %v, %+v", err, idle.Cascades)
	}
	if err := ResolveCascades([]*Table{cascadeTable("c", "CONSTRAINT `k` FOREIGN KEY (`a`) EXPLODES")}); err == nil || !strings.HasPrefix(err.Error(), "follow s.c: parse a foreign key: ") {
		t.Errorf("a key that cannot be parsed: %v", err)
	}
}

// TestCascadeSQL has the statements that apply the changes of keys.
func TestCascadeSQL(t *testing.T) {
	row := func(values ...string) (r [][]byte) {
		for _, v := range values {
			r = append(r, []byte(v))
		}
		return r
	}
	for action, want := range map[string]string{
		"CASCADE":  "DELETE FROM `x`.`c` WHERE `a` IN (_utf8mb4'1',_utf8mb4'2')",
		"SET NULL": "UPDATE `x`.`c` SET `a`=NULL,`b`=`b` WHERE `a` IN (_utf8mb4'1',_utf8mb4'2')",
	} {
		parent, child := cascadeTable("p", "UNIQUE KEY `u` (`a`)"), cascadeTable("c", "CONSTRAINT `k` FOREIGN KEY (`a`) REFERENCES `p` (`a`) ON DELETE "+action+" ON UPDATE CASCADE")
		child.Create = strings.Replace(child.Create, "`b` varchar(10)", "`b` timestamp on update current_timestamp()", 1)
		if err := ResolveCascades([]*Table{parent, child}); err != nil {
			t.Fatal(err)
		}
		s, err := NewCascadeSQL("`x`.`c`", child, 0)
		if err != nil {
			t.Fatal(err)
		}
		text := s.AppendKey(s.AppendKey(s.AppendDeleteHead(nil), row("0", "1", "b", "0"), true), row("0", "2", "b", "0"), false)
		if got := string(s.AppendDeleteTail(text)); got != want {
			t.Errorf("%s: %s, want %s", action, got, want)
		}
	}
	if _, err := NewCascadeSQL("t", &Table{Cascades: []Cascade{{Key: ForeignKey{OnDelete: "SET NULL"}}}}, 0); err == nil {
		t.Error("a key without columns has statements")
	}
}
