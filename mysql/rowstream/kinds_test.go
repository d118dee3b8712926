package rowstream

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/mysql/mysqlwire"
)

var rewriteTypes = flag.Bool("rewrite-types", false, "write testdata/types.txt")

// columnTypes are columns of each type, with the lengths at which conversions and statements differ.
func columnTypes() (all []Column) {
	for _, full := range []string{
		"tinyint", "smallint unsigned", "int", "int(11)", "int(10) unsigned zerofill", "bigint", "bigint unsigned", "year", "decimal(8,0)", "decimal(8,2)", "decimal(9,2)", "decimal(12,1)", "decimal(65,30)", "float", "double",
		"bit(9)", "date", "time", "time(3)", "datetime", "datetime(6)", "timestamp", "char(10)", "varchar(10)", "varchar(20)", "text", "longtext", "binary(10)", "varbinary(10)", "blob", "longblob", "point", "json",
		"enum('a','it''s')", "enum('a','it''s','z')", "enum('z','a')", "set('a','b')", "set('b','a','c')", "uuid", "inet6",
	} {
		kind, _, _ := strings.Cut(full, "(")
		kind, _, _ = strings.Cut(kind, " ")
		c := Column{Name: "c", Type: kind, FullType: full, Unsigned: strings.Contains(full, "unsigned")}
		if k := c.kind(); k == kindText || k == kindOrdinal {
			c.Charset, c.Collation = "utf8mb4", "utf8mb4_general_ci"
		}
		all = append(all, c)
	}
	latin := Column{Name: "c", Type: "varchar", FullType: "varchar(10)", Charset: "latin1", Collation: "latin1_bin"}
	exact := Column{Name: "c", Type: "varchar", FullType: "varchar(10)", Charset: "utf8mb4", Collation: "utf8mb4_nopad_bin"}
	unordered := Column{Name: "c", Type: "char", FullType: "char(10)", Charset: "utf8mb4", Collation: "utf8mb4_general_nopad_ci"}
	return append(all, latin, exact, unordered, Column{Name: "c", Type: "int", FullType: "int", Nullable: true})
}

// groups writes each text of columns once, after the columns that have it.
func groups(b *strings.Builder, all []Column, name, text func(Column) string) {
	names := make(map[string][]string)
	var order []string
	for _, c := range all {
		t := text(c)
		if names[t] == nil {
			order = append(order, t)
		}
		names[t] = append(names[t], name(c))
	}
	for _, t := range order {
		fmt.Fprintf(b, "%s\n%s\n", strings.Join(names[t], "; "), t)
	}
}

// statements returns the SQL for a column: of its values, its sums, its keys and its rows.
func (c Column) statements() string {
	var b strings.Builder
	list, set := LoadColumns([]Column{c, {Name: "id", Type: "int", Auto: true}})
	table := &Table{Schema: "s", Name: "t", Columns: []Column{c, {Name: "k", Type: "int"}}}
	fmt.Fprintf(&b, "\tat most %d bytes, read %s, key %s, exact %t, keyable %t, load %s%s\n\tsum %s\n\tkeys", c.maxBytes(), c.ReadExpr(), c.keyExpr(), c.Exact(), c.Keyable(), list, set, table.sumExpr(SumOptions{Columns: []int{0, 1}}))
	values := []string{"12", "a'b", "\x00\xff"}
	for _, v := range append(values, "", "-1.5e+3") {
		literal, err := c.keyLiteral([]byte(v))
		if err != nil {
			literal = "none"
		}
		fmt.Fprintf(&b, " %q %s", v, literal)
	}
	for _, key := range [][]int{{0}, {1, 0}} {
		s, err := NewRowSQL(table.SQLName(), table.Columns, key)
		if err != nil {
			b.WriteString("\n\tno rows")
			continue
		}
		sql := s.AppendReplaceHead(nil)
		for n, v := range values {
			sql = s.AppendRow(sql, mysqlwire.TextRow{[]byte(v), []byte("3")}, n == 0)
		}
		sql = append(s.AppendRow(sql, mysqlwire.TextRow{nil, []byte("3")}, false), "; "...)
		sql = s.AppendDeleteHead(sql)
		for n, v := range values {
			sql = s.AppendKey(sql, mysqlwire.TextRow{[]byte(v), []byte("3")}, n == 0)
		}
		fmt.Fprintf(&b, "\n\t%s, exact key %t", s.AppendDeleteTail(sql), s.ExactKey())
	}
	return b.String()
}

func (c *Column) describe() string {
	text := c.FullType
	if c.kind() == kindText {
		text += " " + c.Collation
	}
	if c.Nullable {
		text += " null"
	}
	return text
}

// TestTypes compares the SQL of columns of each type, and the conversion of each to each other, with testdata/types.txt. Package alter compares
// conversions with those of servers, and TestKeyOrders, TestSumsOfNumbers and the tests of copies the rest.
func TestTypes(t *testing.T) {
	const file = "testdata/types.txt"
	all := columnTypes()
	var b strings.Builder
	groups(&b, all, func(c Column) string { return c.describe() }, Column.statements)
	for _, from := range all {
		fmt.Fprintf(&b, "from %s\n", from.describe())
		groups(&b, all, func(to Column) string { return to.describe() }, func(to Column) string {
			to.Name = "d"
			c, err := ConvertColumn(&from, &to)
			if err != nil {
				_, reason, _ := strings.Cut(err.Error(), to.FullType+": ")
				return "\t" + reason
			}
			return fmt.Sprintf("\twrite %q, compare %q with %q, zero %t, UTC %t", c.Write, c.From, c.To, c.Zero, c.UTC)
		})
	}
	if *rewriteTypes {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(file, []byte(b.String()), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(b.String(), "\n")); diff != "" {
		t.Errorf("%s: %s", file, diff)
	}
}

// TestNumberText has each byte in a number that is written without quotes.
func TestNumberText(t *testing.T) {
	for b := range 256 {
		want := strings.IndexByte("0123456789-+.eE", byte(b)) >= 0
		for _, text := range [][]byte{{byte(b)}, {'1', byte(b)}, {byte(b), '1'}} {
			if numberText(text) != want {
				t.Errorf("%q: %t", text, !want)
			}
		}
	}
	if numberText(nil) {
		t.Error("nothing is a number")
	}
}

var errStreaming = errors.New("the connection is lost")

// TestStreamsFail has each write of a wide statement fail, in turn, also of rows in hexadecimal digits.
func TestStreamsFail(t *testing.T) {
	plain, odd := bytes.Repeat([]byte("a"), 3*streamPiece), bytes.Repeat([]byte("\x00"), 3*streamPiece)
	b := Batch{Columns: 3}
	b.AppendRow(mysqlwire.TextRow{[]byte("1"), plain, odd})
	for what, stream := range map[string]func(write func([]byte) error) ([]byte, error){
		"INSERT": func(write func([]byte) error) ([]byte, error) {
			return StreamInsert([]byte("before "), "INSERT INTO t VALUES ", mysqlwire.TextRow{[]byte("1"), plain, odd}, nil, write)
		},
		"LOAD": func(write func([]byte) error) ([]byte, error) { return StreamLoad(nil, &b, write) },
	} {
		writes := 0
		if _, err := stream(func(p []byte) error {
			if writes++; len(p) > 2*streamPiece {
				t.Errorf("%s: a piece of %d bytes", what, len(p))
			}
			return nil
		}); err != nil || writes < 3 {
			t.Fatalf("%s: %d writes, %v", what, writes, err)
		}
		for at := range writes {
			n := 0
			dst, err := stream(func([]byte) error {
				if n++; n > at {
					return errStreaming
				}
				return nil
			})
			if !errors.Is(err, errStreaming) || n != at+1 || len(dst) != 0 {
				t.Errorf("%s: write %d of %d fails: %v, %d writes", what, at+1, writes, err, n)
			}
		}
	}
}

// TestForeignKeys has keys with each action, and one cut at each byte: a part of a definition is an error or another key, not the key.
func TestForeignKeys(t *testing.T) {
	actions := []string{"", "CASCADE", "SET NULL", "SET DEFAULT", "NO ACTION", "RESTRICT"}
	for _, onDelete := range actions {
		for _, onUpdate := range actions {
			want := ForeignKey{Name: "k`1", Columns: []string{"a", "b"}, Schema: "s", Table: "p", Referred: []string{"x", "y"}, OnDelete: onDelete, OnUpdate: onUpdate}
			keys, _, err := CreateForeignKeys("CREATE TABLE `t` (\n  `a` int,\n  " + want.Definition("`s`.`p`") + "\n)")
			if diff := cmp.Diff([]ForeignKey{want}, keys); diff != "" || err != nil {
				t.Errorf("ON DELETE %s ON UPDATE %s: %v, %s", onDelete, onUpdate, err, diff)
			}
			acts := func(action string) bool { return slices.Contains(actions[1:4], action) }
			if want.Acts() != (acts(onDelete) || acts(onUpdate)) {
				t.Errorf("ON DELETE %s ON UPDATE %s: acts %t", onDelete, onUpdate, want.Acts())
			}
		}
	}
	const line = "  CONSTRAINT `k` FOREIGN KEY (`a`, `b`) REFERENCES `s`.`p` (`x`, `y`) ON DELETE CASCADE ON UPDATE SET NULL"
	whole := []int{strings.Index(line, " ON DELETE"), strings.Index(line, " ON UPDATE"), len(line)}
	other := len("  CONSTRAINT `k` FOREIGN KEY ") // before it, it may be another constraint
	for n := range len(line) + 1 {
		k, ok, err := parseForeignKey(line[:n])
		if want := slices.Contains(whole, n); ok != want || !want && err == nil && n >= other {
			t.Errorf("%s: %+v, %t, %v", line[:n], k, ok, err)
		}
	}
	for _, odd := range []string{"  FOREIGN KEY (`a`) REFERENCES `p` (`x`)", line + " MATCH FULL", strings.Replace(line, "`, `y`", "`", 1), strings.Replace(line, "`a`", "a", 1), strings.Replace(line, "CASCADE", "EXPLODE", 1), strings.Replace(line, "`k`", "``", 1)} {
		if _, ok, err := parseForeignKey(odd); ok || err == nil {
			t.Errorf("%s: %t, %v", odd, ok, err)
		}
	}
}

// TestKeyTuples encodes keys and decodes them, whole and cut at each byte.
func TestKeyTuples(t *testing.T) {
	for _, key := range []mysqlwire.TextRow{nil, {[]byte{}}, {[]byte("a"), []byte("bc")}, {bytes.Repeat([]byte("x"), 300)}} {
		text := EncodeKey(key)
		for n := range len(text) + 1 {
			part := text[:n:n]
			if got, err := DecodeKey(part, len(key)); (err == nil) != (n == len(text)) || err == nil && !cmp.Equal(got, key) {
				t.Errorf("%q cut at %d: %q, %v", text, n, got, err)
			}
		}
		if key != nil {
			if _, err := DecodeKey(text, len(key)+1); err == nil {
				t.Errorf("%q has a column more", text)
			}
		}
	}
	if _, err := DecodeKey(EncodeKey(mysqlwire.TextRow{nil}), 1); !errors.Is(err, ErrNullKey) {
		t.Errorf("a NULL: %v", err)
	}
}

// TestNegativeDoubles has texts of doubles around the sizes at which their form changes: each is the same number, and that of the negative number
// is the same after a sign.
func TestNegativeDoubles(t *testing.T) {
	for _, digits := range []string{"1", "1.5", "9.87654321", "1.2345678901234567"} {
		for exponent := -30; exponent <= 30; exponent++ {
			v, err := strconv.ParseFloat(digits+"e"+strconv.Itoa(exponent), 64)
			if err != nil {
				t.Fatal(err)
			}
			text, negative := string(AppendDouble(nil, v, -1)), string(AppendDouble(nil, -v, -1))
			if back, err := strconv.ParseFloat(text, 64); err != nil || back != v || negative != "-"+text {
				t.Errorf("%v is %s (%v), its negative is %s", v, text, err, negative)
			}
		}
	}
}
