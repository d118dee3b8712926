package tabledef

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/alloctest"
)

// TestQualifiers finds the schemas that expressions name.
func TestQualifiers(t *testing.T) {
	for text, want := range map[string][]string{
		"  `a` bigint DEFAULT nextval(`other`.`q`),\n  `b` bigint DEFAULT nextval(`s`.`q`),\n  `c` bigint DEFAULT lastval(`other`.`q`)\n)": {"other", "s"},
		"  `a` int CHECK (`o``d`./* */`f`() > 0)\n)":                                                        {"o`d"},
		"  `a` int DEFAULT (other . f())\n)":                                                                {"other"},
		"  `a` int DEFAULT /*!50701 (other.f()) */ 1\n)":                                                    {"other"},
		"  `a` decimal(3,2) DEFAULT 1.25 COMMENT 'x.y',\n  `b.c` double DEFAULT (1.5 * .5),\n KEY (`a`)\n)": nil,
		"  `j` json,\n  `v` int GENERATED ALWAYS AS (json_extract(`j`,_utf8mb4'$.a.b')) VIRTUAL\n)":         nil,
	} {
		table := Table{Create: "CREATE TABLE `here`.`t` (\n" + text}
		for _, version := range []string{"10.11.14-MariaDB", "9.7.0"} {
			if diff := cmp.Diff(want, table.Qualifiers(version)); diff != "" {
				t.Errorf("%s, %s: %s", version, text, diff)
			}
		}
	}
}

// TestTableNames creates tables whose names contain what begins the columns of a definition.
func TestTableNames(t *testing.T) {
	const columns = "  `a` bigint DEFAULT nextval(`other`.`q`)\n) ENGINE=InnoDB"
	for _, name := range []string{"`t`", "`x (\ny`", "`x`` (\n`", "```, `` (\n`"} {
		create, err := createIn("CREATE TABLE "+name+" (\n"+columns, "`s`."+name, "10.11.14-MariaDB")
		if want := "CREATE TABLE `s`." + name + " (\n" + columns; create != want || err != nil {
			t.Errorf("%s, %v, want %s", create, err, want)
		}
		table := Table{Create: create}
		if got := table.Qualifiers("10.11.14-MariaDB"); !slices.Equal(got, []string{"other"}) {
			t.Errorf("%q: %q", create, got)
		}
	}
	for _, text := range []string{"CREATE TABLE t (\n" + columns, "CREATE TABLE `t (\n" + columns, "CREATE TABLE `t`.`u` (\n" + columns, "CREATE TABLE `t`  (\n" + columns, "CREATE TABLE `"} {
		if got, err := createIn(text, "`s`.`t`", "10.11.14-MariaDB"); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
}

// TestReadings refuses texts that the target may read in another way than Tare.
func TestReadings(t *testing.T) {
	const maria, mysql, tidb, unknown = "10.11.14-MariaDB", "9.7.0", "8.0.11-TiDB-v8.4.0", "8.0.mysql_aurora.3.04.0"
	for _, c := range []struct{ text, refused string }{
		{"`a` int DEFAULT 1 /*!80023 INVISIBLE */", ""},
		{"`a` int /*!50606 COLUMN_FORMAT FIXED */ COMMENT '/* x'", ""},
		{"`a` varchar(9) /*!100301 COMPRESSED*/", tidb},
		{"PRIMARY KEY (`a`) /*T![clustered_index] CLUSTERED */", ""},
		{"`a` int /*T![x] REFERENCES `other`.`t` */", tidb + unknown + maria + mysql},
		{"`a` int /*!50701 COMMENT '*/ /*!50701 ' */", unknown},
		{"`a` int /*!50701 COMMENT '*/ DEFAULT (other.f()) /*!50701 ' */", unknown},
		{"`a` int /*!70000 COMMENT '*/ DEFAULT (other.f())", unknown},
		{"`a` int DEFAULT (other /*!99999 s */ . f())", unknown},
		{"`a` int DEFAULT (other./*!99999 s.*/f())", unknown},
		{"`a` int DEFAULT (f()) /*!50000 /* */ */", unknown + maria + mysql + tidb},
		{"`a` int -- \x00 DEFAULT (other.f())", unknown + maria + mysql + tidb},
	} {
		for _, version := range []string{maria, mysql, tidb, unknown} {
			err := checkCreate("CREATE TABLE `s`.`t` (\n  "+c.text+"\n) ENGINE=InnoDB", "InnoDB", version)
			if (err != nil) != strings.Contains(c.refused, version) {
				t.Errorf("%s: %s: %v", version, c.text, err)
			}
		}
	}
}

// A lexServer reads statements as the lexer of a server does: a reference that shares no code with package sqldigest.
type lexServer struct {
	version int // 90700
	maria   bool
}

// qualifiers returns the names before dots; ok is false for texts that the server refuses.
func (s lexServer) qualifiers(text string) (names []string, ok bool) {
	name, exec := "", false // name: of the last token
	adjacent := false       // nothing is between it and the next byte
	space := func(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }
	for i := 0; i < len(text); {
		c, rest := text[i], text[i:]
		switch {
		case exec && strings.HasPrefix(rest, "*/"):
			exec, adjacent = false, false
			i += 2
		case space(c):
			adjacent = false
			i++
		case c == '#', strings.HasPrefix(rest, "--") && (len(rest) == 2 || rest[2] <= ' ' || rest[2] == 0x7f):
			n := strings.IndexAny(rest, "\n\x00")
			if n < 0 {
				return names, true
			}
			adjacent = false
			i += n
		case strings.HasPrefix(rest, "/*"):
			n, runs := s.comment(rest)
			if n < 0 {
				return nil, false
			}
			exec = exec || runs
			adjacent = false
			i += n
		case c == '`':
			n, content, closed := quoted(rest, false)
			if !closed || strings.Contains(rest[:n], "\x00") {
				return nil, false
			}
			name, adjacent = content, true
			i += n
		case c == '\'' || c == '"':
			n, _, closed := quoted(rest, true)
			if !closed {
				return nil, false
			}
			name, adjacent = "", false
			i += n
		case c == '.':
			i++
			if !adjacent && i < len(text) && '0' <= text[i] && text[i] <= '9' {
				i += number(text[i:], false)
				name = ""
				continue
			}
			if utf8.RuneCountInString(name) > 64 || strings.HasPrefix(strings.TrimLeft(text[i:], " \t\n\v\f\r"), ".") {
				return nil, false // longer than any name, or two dots, which no grammar has
			}
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
			name = ""
			if adjacent && i < len(text) && wordByte(text[i]) { // a name, even of digits
				n := wordLen(text[i:])
				name = text[i : i+n]
				i += n
				continue
			}
			adjacent = false
		case '0' <= c && c <= '9':
			n := number(rest, true)
			name, adjacent = "", false
			if n == 0 {
				n = wordLen(rest)
				name, adjacent = rest[:n], true
			}
			i += n
		case wordByte(c):
			n := wordLen(rest)
			name, adjacent = rest[:n], true
			i += n
		case c < ' ' || c == 0x7f || c == '@' || c == '\\' || c == '?' || c == '$': // no text of a definition
			return nil, false
		default:
			name, adjacent = "", false
			i++
		}
	}
	return names, !exec
}

// comment returns the length of a comment, or that of the mark of one that the server executes; a negative one if it has no end.
func (s lexServer) comment(rest string) (n int, runs bool) {
	digits, maria := "", false
	switch {
	case strings.HasPrefix(rest, "/*!"):
		n = 3
	case s.maria && strings.HasPrefix(rest, "/*M!"):
		n, maria = 4, true
	default:
		end := strings.Index(rest[2:], "*/")
		if end < 0 {
			return -1, false
		}
		return end + 4, false
	}
	for len(digits) < 6 && n+len(digits) < len(rest) && '0' <= rest[n+len(digits)] && rest[n+len(digits)] <= '9' {
		digits = rest[n : n+len(digits)+1]
	}
	after := n + len(digits)
	if len(digits) == 6 && !s.maria && (after == len(rest) || rest[after] != ' ') {
		digits = digits[:5]
	}
	if len(digits) < 5 {
		return n, true
	}
	version, err := strconv.Atoi(digits)
	if err != nil {
		panic(err)
	}
	if n += len(digits); version <= s.version && (!s.maria || maria || version < 50700 || version > 99999) {
		return n, true
	}
	for depth := 0; n+1 < len(rest); n++ {
		switch {
		case rest[n:n+2] == "*/" && depth == 0:
			return n + 2, false
		case rest[n:n+2] == "*/":
			depth = 0
			n++
		case rest[n:n+2] == "/*" && depth == 0:
			depth = 1
			n++
		}
	}
	return -1, false
}

// quoted returns the length and the content of a quoted text.
func quoted(rest string, escapes bool) (n int, content string, closed bool) {
	var b strings.Builder
	for n = 1; n < len(rest); n++ {
		switch {
		case rest[n] == '\\' && escapes:
			n++
		case rest[n] != rest[0]:
			b.WriteByte(rest[n])
		case n+1 < len(rest) && rest[n+1] == rest[0]:
			b.WriteByte(rest[n])
			n++
		default:
			return n + 1, b.String(), true
		}
	}
	return n, "", false
}

// number returns the length of a number, 0 if the text is a name that a digit starts.
func number(rest string, whole bool) int {
	digits := func(n int) int {
		for n < len(rest) && '0' <= rest[n] && rest[n] <= '9' {
			n++
		}
		return n
	}
	if whole && (strings.HasPrefix(rest, "0x") || strings.HasPrefix(rest, "0b")) {
		n := 2
		for n < len(rest) && strings.IndexByte(map[byte]string{'x': "0123456789abcdefABCDEF", 'b': "01"}[rest[1]], rest[n]) >= 0 {
			n++
		}
		if n == 2 || n < len(rest) && wordByte(rest[n]) {
			return 0
		}
		return n
	}
	n := digits(0)
	fraction := !whole
	if whole && n < len(rest) && rest[n] == '.' {
		fraction = true
		n = digits(n + 1)
	}
	if n < len(rest) && rest[n]|0x20 == 'e' {
		e := n + 1
		if e < len(rest) && (rest[e] == '+' || rest[e] == '-') {
			e++
		}
		if end := digits(e); end > e {
			return end
		}
	}
	if !fraction && n < len(rest) && wordByte(rest[n]) {
		return 0
	}
	return n
}

func wordByte(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || c == '$' || c >= 0x80
}

func wordLen(rest string) (n int) {
	for n < len(rest) && wordByte(rest[n]) {
		n++
	}
	return n
}

// FuzzQualifiers checks arbitrary definitions, and some with a qualifier between texts and comments: Qualifiers finds each name
// before a dot in a server's reading, or checkCreate refuses the definition.
func FuzzQualifiers(f *testing.F) {
	f.Add("`a` bigint DEFAULT (", "other", "/* */", "f()) COMMENT 'x.y'")
	f.Add("`a` int /*!50701 COMMENT '*/ DEFAULT (", "o`d", " /*!99999 s */ ", ".f()) /*!50701 '*/")
	f.Add("`a` int /*M!100301 x */ CHECK (1.5 * .5 > 1e1 -- '\n and ", "1a", "", "`f`() > 0)")
	f.Add("`j` json GENERATED ALWAYS AS (json_extract(`j`,_utf8mb4'$.a.b', N'\\'', x'00', ", "0x", "\n# `\n", ".5a))")
	f.Add("`a` int /*! /*!80000 */ '*/", "é", "/*!090700 . */", "x")
	f.Add("`a` int /*T![x] DEFAULT ", "s", "/*!100100 */", ".f() */ \"it\\\"s\" \"\"\"\"")
	f.Add("PARTITION BY LIST (`a`) (PARTITION `p` VALUES IN (1,", "_utf8", "--\t\n", "f()))")
	servers := map[string]lexServer{"10.11.14-MariaDB": {101114, true}, "11.8.3-MariaDB": {110803, true}, "9.7.0": {90700, false}, "8.0.36": {80036, false}}
	f.Fuzz(func(t *testing.T, before, name, gap, after string) {
		defer alloctest.Bounded(t, 16<<20)()
		quotes := "`" + strings.ReplaceAll(name, "`", "``") + "`"
		for _, body := range []string{
			before + name + gap + after,
			before + name + gap + "." + after,
			before + quotes + gap + "." + after,
			"`c` int COMMENT '" + strings.NewReplacer("'", "''", `\\`, `\\\\`).Replace(before) + "' DEFAULT (" + quotes + ".`" + strings.ReplaceAll(gap, "`", "``") + "`())" + after,
			"/*!50000 `" + strings.ReplaceAll(before, "`", "``") + "` */ x " + quotes + " /*!50000 . */ f" + after,
		} {
			create := "CREATE TABLE `here`.`t` (\n  " + body
			table := Table{Create: create}
			for version, server := range servers {
				want, ok := server.qualifiers("  " + body)
				if !ok || checkCreate(create, "InnoDB", version) != nil {
					continue
				}
				got := table.Qualifiers(version)
				for _, q := range want {
					if !slices.Contains(got, q) {
						t.Errorf("%s: %q: found %q, want %q", version, create, got, want)
					}
				}
				// A server of a product that is not known may be like this one.
				const unknown = "8.0.mysql_aurora.3.04.0"
				if checkCreate(create, "InnoDB", unknown) != nil {
					continue
				}
				got = table.Qualifiers(unknown)
				for _, q := range want {
					if !slices.Contains(got, q) {
						t.Errorf("%s like %s: %q: found %q, want %q", unknown, version, create, got, want)
					}
				}
			}
		}
	})
}
