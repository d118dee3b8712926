package dialect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/mysql/sqldigest"
)

// known are collations of both vendors.
func known(names ...string) map[string]bool {
	m := map[string]bool{"latin1_bin": true}
	for _, n := range names {
		m[n] = true
	}
	return m
}

var (
	toMaria = &Translator{From: MySQL, To: MariaDB, Known: known("utf8mb4_uca1400_nopad_ai_ci", "utf8mb4_uca1400_nopad_as_cs", "utf8mb4_uca1400_german2_nopad_ai_ci", "utf8mb4_nopad_bin", "utf8mb4_uca1400_ai_ci")}
	toMy    = &Translator{From: MariaDB, To: MySQL, Known: known("utf8mb4_0900_ai_ci", "utf8mb4_0900_as_cs", "utf8mb4_de_pb_0900_ai_ci", "utf8mb4_0900_bin")}
)

func TestCollation(t *testing.T) {
	for _, pair := range [][2]string{
		{"utf8mb4_0900_ai_ci", "utf8mb4_uca1400_nopad_ai_ci"},
		{"utf8mb4_0900_as_cs", "utf8mb4_uca1400_nopad_as_cs"},
		{"utf8mb4_0900_bin", "utf8mb4_nopad_bin"},
		{"utf8mb4_de_pb_0900_ai_ci", "utf8mb4_uca1400_german2_nopad_ai_ci"},
		{"latin1_bin", "latin1_bin"},
	} {
		for _, tt := range []struct {
			tr       *Translator
			from, to string
		}{{toMaria, pair[0], pair[1]}, {toMy, pair[1], pair[0]}} {
			if got, err := tt.tr.Collation(tt.from); err != nil || got != tt.to {
				t.Errorf("%s becomes %s, want %s (%v)", tt.from, got, tt.to, err)
			}
		}
	}
	for _, tt := range []struct {
		tr         *Translator
		name, want string
	}{
		{toMy, "utf8mb4_uca1400_ai_ci", "option map-collation utf8mb4_uca1400_ai_ci=utf8mb4_0900_ai_ci"},
		{toMaria, "utf8mb4_ja_0900_as_cs_ks", "no collation utf8mb4_ja_0900_as_cs_ks"},
		{toMaria, "utf8mb4_0900_as_ci", "choose one"}, // whose counterpart this server has not
		{&Translator{From: MySQL, To: MySQL, Known: known()}, "utf8mb4_0900_ai_ci", "no collation"},
		{&Translator{From: MySQL, To: MySQL, Known: known(), Collations: map[string]string{"a_ci": "b_ci"}}, "a_ci", "no collation b_ci, which was chosen"},
	} {
		if got, err := tt.tr.Collation(tt.name); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s becomes %s, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

func TestTable(t *testing.T) {
	for _, tt := range []struct {
		tr         *Translator
		line, want string
	}{
		{
			toMaria, "  `a` varchar(9) COLLATE utf8mb4_0900_ai_ci /*!80023 INVISIBLE */ COMMENT 'utf8mb4_0900_ai_ci /*!80023 INVISIBLE */',",
			"  `a` varchar(9) COLLATE utf8mb4_uca1400_nopad_ai_ci INVISIBLE COMMENT 'utf8mb4_0900_ai_ci /*!80023 INVISIBLE */',",
		},
		{toMaria, "  KEY `utf8mb4_0900_ai_ci` (`a`) /*!80000 INVISIBLE */", "  KEY `utf8mb4_0900_ai_ci` (`a`) IGNORED"},
		{toMaria, ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_as_cs", ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_uca1400_nopad_as_cs"},
		{toMaria, "  `t` text DEFAULT (_utf8mb4'a\\'_utf8mb4'),", "  `t` text DEFAULT ('a\\'_utf8mb4'),"},
		{toMaria, "  KEY `f` ((lower(`a`)))", "! its index f is over an expression, and MariaDB has only indexes over columns: add a generated column for it"},
		{toMaria, "  CONSTRAINT `c` CHECK ((`a` > 0)) /*!80016 NOT ENFORCED */", "! it has a CHECK that is NOT ENFORCED, and MariaDB enforces all"},
		{toMy, "  `u` char(36) DEFAULT uuid() COMMENT 'DEFAULT uuid()',", "  `u` char(36) DEFAULT (uuid()) COMMENT 'DEFAULT uuid()',"},
		{toMy, "  `t` text DEFAULT 'it''s) \\' a' COMMENT 'x',", "  `t` text DEFAULT ('it''s) \\' a') COMMENT 'x',"},
		{toMaria, "  `a\\` text DEFAULT (_utf8mb4'x'),", "  `a\\` text DEFAULT ('x'),"},
		{toMaria, "  `a` text DEFAULT (concat('`\\'_utf8mb4', _utf8mb4'x')),", "  `a` text DEFAULT (concat('`\\'_utf8mb4', 'x')),"},
		{toMaria, "  `a``_utf8mb4'` text DEFAULT (_utf8mb4'x') /* _utf8mb4'y' */ -- _utf8mb4'z'", "  `a``_utf8mb4'` text DEFAULT ('x') /* _utf8mb4'y' */ -- _utf8mb4'z'"},
		{toMy, "  `t` text DEFAULT 'a''b'", "  `t` text DEFAULT ('a''b')"},
		{toMy, "  `u` char(36) DEFAULT uuid()", "  `u` char(36) DEFAULT (uuid())"},
		{toMy, "  `e` int(11) DEFAULT concat(')', '(', \"(\", `(`, lower(`a`))", "  `e` int(11) DEFAULT (concat(')', '(', \"(\", `(`, lower(`a`)))"},
		{toMy, "  `t` tinyblob DEFAULT 'a',", "  `t` tinyblob DEFAULT ('a'),"},
		{toMy, "  `i` int(11) DEFAULT -5,", "  `i` int(11) DEFAULT -5,"},
		{toMy, "  `v` varchar(9) DEFAULT 'text',", "  `v` varchar(9) DEFAULT 'text',"},
		{toMy, "  `d` timestamp NULL DEFAULT current_timestamp() ON UPDATE current_timestamp(),", "  `d` timestamp NULL DEFAULT current_timestamp() ON UPDATE current_timestamp(),"},
		{toMy, "  `e` int(11) DEFAULT concat('(', `a`, ')') CHECK (`e` > 0),", "  `e` int(11) DEFAULT (concat('(', `a`, ')')) CHECK (`e` > 0),"},
		{toMy, "  KEY `k` (`a`) IGNORED,", "  KEY `k` (`a`) INVISIBLE,"},
		{toMy, "  `u` uuid NOT NULL,", "! it has a column of a type that MySQL has not (UUID, INET4, INET6 or XMLTYPE)"},
		{toMaria, ") ENGINE=InnoDB COMPRESSION='zlib'", "! its pages are compressed (COMPRESSION), which MariaDB sets up in another way"},
		{toMaria, ") ENGINE=InnoDB COMMENT='SECONDARY_ENGINE=' SECONDARY_ENGINE=rapid", "! it has a SECONDARY_ENGINE, which MariaDB has not"},
		{toMy, ") ENGINE=InnoDB PAGE_CHECKSUM=1 COMMENT=' TRANSACTIONAL=1' TRANSACTIONAL=0", ") ENGINE=InnoDB COMMENT=' TRANSACTIONAL=1'"},
		{toMy, "  `b` blob DEFAULT X'00ff',", "  `b` blob DEFAULT (X'00ff'),"},
		{toMy, "  `b` text DEFAULT _latin1'x' COMMENT 'y',", "  `b` text DEFAULT (_latin1'x') COMMENT 'y',"},
		{toMy, "  `b` longtext,\n  `c` text,\n  UNIQUE KEY `k` (`b`) USING HASH,\n  UNIQUE KEY `l` (`c`(5))", "! its unique key k is over a whole text, which MySQL has not"},
		{toMy, "  `b` int,\n  UNIQUE KEY `k` (`b`) USING HASH", "  `b` int,\n  UNIQUE KEY `k` (`b`) USING HASH"},
		{toMy, ") ENGINE=InnoDB COMMENT='`x`=1' `page_compressed`='1' `ENCRYPTED`='YES'", "! it has the option page_compressed, which MySQL has not; it has the option ENCRYPTED, which MySQL has not"},
		{toMy, ") ENGINE=InnoDB COMMENT='`x`=1'\n PARTITION BY HASH (`a`)", ") ENGINE=InnoDB COMMENT='`x`=1'\n PARTITION BY HASH (`a`)"},
		{toMaria, "  `a` int NOT NULL /*!80023 INVISIBLE */ COMMENT ' DEFAULT 1',", "! it has an INVISIBLE column that is NOT NULL and has no default, which MariaDB refuses"},
		{toMaria, "  `a` int NOT NULL AUTO_INCREMENT /*!80023 INVISIBLE */,", "  `a` int NOT NULL AUTO_INCREMENT INVISIBLE,"},
		{toMaria, "  `a` int NOT NULL DEFAULT '3' /*!80023 INVISIBLE */,", "  `a` int NOT NULL DEFAULT '3' INVISIBLE,"},
		{toMaria, "  `a` int GENERATED ALWAYS AS ((`b` * 2)) STORED NOT NULL /*!80023 INVISIBLE */,", "  `a` int GENERATED ALWAYS AS ((`b` * 2)) STORED NOT NULL INVISIBLE,"},
		{toMaria, "  `a` int /*!80023 INVISIBLE */,", "  `a` int INVISIBLE,"},
		{toMy, "  `uuid` int NOT NULL,", "  `uuid` int NOT NULL,"},
		{toMy, "  `a` text COLLATE utf8mb4_uca1400_ai_ci,", "! the target has no collation utf8mb4_uca1400_ai_ci, and none that compares texts by the same rules: choose one, such as option map-collation utf8mb4_uca1400_ai_ci=utf8mb4_0900_ai_ci"},
		{&Translator{From: MySQL, To: MySQL}, "  KEY `f` ((lower(`a`)))", "  KEY `f` ((lower(`a`)))"},
		{nil, "  `u` uuid NOT NULL,", "  `u` uuid NOT NULL,"},
	} {
		got, err := tt.tr.Table("CREATE TABLE `utf8mb4_0900_ai_ci` (\n" + tt.line)
		if err != nil {
			got = "! " + err.Error()
		}
		got = strings.TrimPrefix(got, "CREATE TABLE `utf8mb4_0900_ai_ci` (\n")
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.line, diff)
		}
	}
}

func TestBody(t *testing.T) {
	const text = "BEGIN -- utf8mb4_0900_ai_ci 'x\n /* utf8mb4_0900_ai_ci */ SELECT 'utf8mb4_0900_ai_ci', \"utf8mb4_0900_ai_ci\", a COLLATE utf8mb4_0900_ai_ci # utf8mb4_0900_ai_ci\n, 1--1; END"
	got, err := toMaria.Body(text, 0)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(text, "a COLLATE utf8mb4_0900_ai_ci", "a COLLATE utf8mb4_uca1400_nopad_ai_ci", 1); got != want {
		t.Error(cmp.Diff(want, got))
	}
	if _, err := toMaria.Body("SELECT a COLLATE utf8mb4_zh_0900_as_cs", 0); err == nil {
		t.Error("a collation without a counterpart is not refused")
	}
}

// TestBodyModes has a collation that is in quotes in some modes of the server alone.
func TestBodyModes(t *testing.T) {
	const collation, translated = "utf8mb4_0900_ai_ci", "utf8mb4_uca1400_nopad_ai_ci"
	for _, c := range []struct {
		text, mode string
		quoted     bool
	}{
		{`SELECT '\' , a COLLATE utf8mb4_0900_ai_ci, ' x '`, "", true},
		{`SELECT '\' , a COLLATE utf8mb4_0900_ai_ci, ' x '`, "NO_BACKSLASH_ESCAPES", false},
		{`SELECT '\', utf8mb4_0900_ai_ci, ' x '`, "NO_BACKSLASH_ESCAPES", false},
		{`SELECT '\'', utf8mb4_0900_ai_ci, ' x '`, "NO_BACKSLASH_ESCAPES", true},
		{`SELECT "\" , a COLLATE utf8mb4_0900_ai_ci, " x "`, "", true},
		{`SELECT "\" , a COLLATE utf8mb4_0900_ai_ci, " x "`, "ANSI_QUOTES", false},
		{"SELECT `\\`, a COLLATE utf8mb4_0900_ai_ci, ` x `", "", false},
		{`SELECT @utf8mb4_0900_ai_ci`, "", true},
	} {
		got, err := toMaria.Body(c.text, sqldigest.Mode(0).WithSQLMode([]byte(c.mode)))
		want := c.text
		if !c.quoted {
			want = strings.Replace(c.text, collation, translated, 1)
		}
		if err != nil || got != want {
			t.Errorf("%q: %s becomes %s, %v, want %s", c.mode, c.text, got, err, want)
		}
	}
}

func TestSQLMode(t *testing.T) {
	for _, tt := range []struct {
		tr         *Translator
		mode, want string
	}{
		{toMaria, "STRICT_TRANS_TABLES", "STRICT_TRANS_TABLES,TIME_ROUND_FRACTIONAL"},
		{toMaria, "ANSI_QUOTES,TIME_TRUNCATE_FRACTIONAL", "ANSI_QUOTES"},
		{toMy, "STRICT_TRANS_TABLES,NO_AUTO_CREATE_USER", "STRICT_TRANS_TABLES,TIME_TRUNCATE_FRACTIONAL"},
		{toMy, "TIME_ROUND_FRACTIONAL", ""},
		{toMy, "", "TIME_TRUNCATE_FRACTIONAL"},
		{toMy, "ORACLE", "! its sql_mode has ORACLE, which MySQL has not"},
		{nil, "ORACLE", "ORACLE"},
	} {
		got, err := tt.tr.SQLMode(tt.mode)
		if err != nil {
			got = "! " + err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.mode, got, tt.want)
		}
	}
}

// FuzzOutside finds that texts without a change come back as they are.
func FuzzOutside(f *testing.F) {
	for _, s := range []string{"", "a 'b' c", "'", "`a``b`", "/* x", "/*! y */ -- z\n'q\\'", "--", "#"} {
		f.Add(s, uint8(0))
	}
	f.Fuzz(func(t *testing.T, text string, modes uint8) {
		defer alloctest.Bounded(t, 64<<20)()
		names := []string{"NO_BACKSLASH_ESCAPES", "ANSI_QUOTES", "PIPES_AS_CONCAT", "IGNORE_SPACE"}
		mode := sqldigest.Mode(0).WithSQLMode([]byte(strings.Join(names[:modes%5], ",")))
		changed := 0
		if got := Outside(text, mode, func(part string) string { changed += len(part); return part }); got != text || changed > len(text) {
			t.Errorf("%q becomes %q", text, got)
		}
	})
}
