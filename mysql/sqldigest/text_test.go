package sqldigest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/mysql/sqldigest"
)

// TestPlain splits texts at the separators outside of quotes and comments, which depend on the mode.
func TestPlain(t *testing.T) {
	for _, c := range []struct {
		text string
		mode sqldigest.Mode
		want []string
	}{
		{"", 0, []string{""}},
		{"a, b", 0, []string{"a", " b"}},
		{"`a,``b`,(c,(d)),e(f,g)", 0, []string{"`a,``b`", "(c,(d))", "e(f,g)"}},
		{`'a\',b',c`, 0, []string{`'a\',b'`, "c"}},
		{`'a\',b',c`, sqldigest.NoBackslashEscapes, []string{`'a\'`, `b',c`}},
		{`"a\",b`, sqldigest.ANSIQuotes, []string{`"a\"`, "b"}},
		{"a /* x, y */ b,c", 0, []string{"a /* x, y */ b", "c"}},
		{"a /*!50100 x, y */,c", 0, []string{"a /*!50100 x", " y */", "c"}},
		{"'a,b", 0, []string{"'a,b"}},
		{"(a,b", 0, []string{"(a,b"}},
		{"a,b) c,d", 0, []string{"a", "b", "…", " c,d"}},
	} {
		got, rest := sqldigest.List(c.text, c.mode)
		if rest != "" {
			got = append(got, "…", rest)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.text, diff)
		}
		lines := sqldigest.Lines(strings.ReplaceAll(c.text, ",", "\n"), c.mode)
		if got := strings.Join(lines, "|"); rest == "" && !strings.Contains(c.text, "(") && strings.Count(got, "|") != len(c.want)-1 {
			t.Errorf("%s: lines %s", c.text, got)
		}
	}
}

// TestUnquote finds the end of quoted texts, and removes their quotes.
func TestUnquote(t *testing.T) {
	for text, want := range map[string]string{
		"''": " 2", "'a' b": "a 3", "'a''b' c": "a'b 6", `'\'' c`: `\' 4`, "`a\\` c": "a\\ 4", "```` c": "` 4", `"a""" c`: `a" 5`, "'": "' 1", "'a": "a 2", "a": "a 1",
	} {
		n := sqldigest.Quoted(text, 0)
		if got := fmt.Sprintf("%s %d", sqldigest.Unquote(text[:n]), n); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
