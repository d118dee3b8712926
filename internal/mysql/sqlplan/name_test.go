package sqlplan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/sqldigest"
)

// TestUnsureNames plans statements whose names the server may read as the blocked table's, and ones that it cannot.
func TestUnsureNames(t *testing.T) {
	p, err := New(Options{Rules: []Rule{{Name: "secret", Action: ActionBlock, Tables: []string{"app.secret"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		charset, sql string
		blocked      bool
	}{
		{"utf8mb4", "select s from app\xc3.secret", true},
		{"utf8mb4", "select s from `\xf0\x9f\x98\x80`.secret", true}, // not in utf8mb3
		{"utf8mb4", "select s from app.`secre\x01`", true},
		{"utf8mb4", "select s from app.`größe`", false},
		{"utf8mb4", "select s from `größe`.secret", false},
		{"utf8mb4", "call `sys\xe2`.execute_prepared_stmt('x')", true},
		{"utf8mb4", "select `load_file\xe2`('x')", true},
		{"utf8mb4", "set `sql_mode ` = ''", true},
		{"utf8mb4", "create table n like `app\xff`.secret", true},
		{"gbk", "select s from `app\xff`.secret", true},
		{"gbk", "select s from `\xb4\xf3\xd0\xa1wxyz`.secret", false},
		{"sjis", "select s from `\xb1x`.secret", false},
		{"sjis", "select s from `app\xfd`.secret", true},
		{"ujis", "select s from `\x8f\xb0\xa1wxyz`.secret", false},
		{"ujis", "select s from `app\x8f\xb0`.secret", true},
		{"gb18030", "select s from `\x81\x30\x81\x30x`.secret", false},
		{"latin1", "select s from `gr\xf6\xdfe`.secret", false},
		{"ascii", "select s from `app\x80`.secret", true},
	} {
		m := sqldigest.Mode(0).WithServer(sqldigest.Server{Kind: sqldigest.ServerMySQL, Version: 90700}).WithCharset(sqldigest.CharsetNamed([]byte(c.charset)))
		var d sqldigest.Digester
		digest := d.Digest([]byte(c.sql), m)
		plan := p.Plan(Statement{
			SQL: []byte(c.sql), Complete: true, Text: d.Text(), Digest: digest, Scope: p.ScopeOf([]byte("test"), []byte("u"), m),
			Schema: []byte("test"), User: []byte("u"), Mode: m,
		})
		if v, _ := plan.Verdict(); v.Refuses() != c.blocked {
			t.Errorf("%s: %q: %s (tables %v)", c.charset, c.sql, v, tablesOf(plan))
		}
	}
}

func tablesOf(p *Plan) (all []string) {
	for t := range p.Tables() {
		all = append(all, t.String())
	}
	return all
}

// TestCharLen has each pair of bytes, and each of four, in each character set: as many bytes are a character as the list of its forms says.
func TestCharLen(t *testing.T) {
	const digits, any7 = "30-39", "81-fe"
	for charset, forms := range map[string][]string{ // ranges of the bytes of a character
		"ascii":   nil,
		"latin1":  {"80-ff"},
		"big5":    {"a1-f9 40-7e", "a1-f9 a1-fe"},
		"gbk":     {"81-fe 40-7e", "81-fe 80-fe"},
		"gb18030": {"81-fe 40-7e", "81-fe 80-fe", any7 + " " + digits + " " + any7 + " " + digits},
		"gb2312":  {"a1-fe a1-fe"},
		"euckr":   {"a1-fe a1-fe"},
		"sjis":    {"a1-df", "81-9f 40-7e", "81-9f 80-fc", "e0-fc 40-7e", "e0-fc 80-fc"},
		"cp932":   {"a1-df", "81-9f 40-7e", "81-9f 80-fc", "e0-fc 40-7e", "e0-fc 80-fc"},
		"ujis":    {"a1-fe a1-fe", "8e-8e a1-df", "8f-8f a1-fe a1-fe"},
		"eucjpms": {"a1-fe a1-fe", "8e-8e a1-df", "8f-8f a1-fe a1-fe"},
		"utf8mb4": {"c2-df 80-bf", "e0-e0 a0-bf 80-bf", "e1-ec 80-bf 80-bf", "ed-ed 80-9f 80-bf", "ee-ee 80-bf 80-bf", "ef-ef 80-be 80-bf", "ef-ef bf-bf 80-bc", "ef-ef bf-bf be-bf"}, // U+FFFD stands for no character
	} {
		var ranges [][][2]byte
		for _, form := range forms {
			var bytes [][2]byte
			for r := range strings.FieldsSeq(form) {
				var from, to byte
				if _, err := fmt.Sscanf(r, "%x-%x", &from, &to); err != nil {
					t.Fatal(err)
				}
				bytes = append(bytes, [2]byte{from, to})
			}
			ranges = append(ranges, bytes)
		}
		check := func(s string) {
			if s[0] < 0x80 {
				return
			}
			want := 0
			for _, form := range ranges {
				is := len(s) >= len(form)
				for i := 0; is && i < len(form); i++ {
					is = form[i][0] <= s[i] && s[i] <= form[i][1]
				}
				if is {
					want = len(form)
				}
			}
			if got := charLen(s, charset); got != want {
				t.Errorf("%s: %x: a character of %d bytes, want %d", charset, s, got, want)
			}
		}
		edges := []byte{0, 0x2f, 0x30, 0x39, 0x3a, 0x7f, 0x80, 0x81, 0x9f, 0xa0, 0xa1, 0xbc, 0xbd, 0xbe, 0xbf, 0xc0, 0xfe, 0xff}
		for first := 0x80; first <= 0xff; first++ {
			check(string([]byte{byte(first)}))
			for second := range 256 {
				check(string([]byte{byte(first), byte(second)}))
				if slices.Contains(edges, byte(second)) {
					for _, third := range edges {
						check(string([]byte{byte(first), byte(second), third}))
					}
				}
			}
		}
		four := []byte{0x2f, 0x30, 0x39, 0x3a, 0x80, 0x81, 0xfe, 0xff}
		for n := range len(four) * len(four) * len(four) * len(four) {
			check(string([]byte{four[n&7], four[n>>3&7], four[n>>6&7], four[n>>9]}))
		}
	}
}
