package sqldigest

import (
	"strings"
	"testing"
)

// inPieces digests a text in pieces of each length, as it may arrive.
func inPieces(t *testing.T, sql []byte, m Mode) {
	t.Helper()
	var whole, d Digester
	want := whole.Digest(sql, m)
	for n := 1; n < len(sql); n++ {
		d.Reset(m)
		for rest := sql; len(rest) > 0; rest = rest[min(n, len(rest)):] {
			d.Write(rest[:min(n, len(rest))])
		}
		if got := d.Sum(); got != want || string(d.Text()) != string(whole.Text()) {
			t.Errorf("mode %d, %q in pieces of %d: %s %s, want %s %s", m, sql, n, got, d.Text(), want, whole.Text())
			return
		}
	}
}

// TestPieces digests texts with quotes, escapes, comments and characters of several bytes next to each other, also in tokens that are longer than
// the lookahead of a digester.
func TestPieces(t *testing.T) {
	for _, sql := range []string{
		`select 'a''' + x`, `select 'a''''' + x`, `select 'a\\'' + x`, `select 'a\'' + x`, `select '\\\'''' + x`, "select `a``` + x", "select `a```.`b` + x",
		`select "a""" + x, "b\"" + y`, "select /* a **/ + x", "select /* '*/ + x /**/ + y", "select 1 -- '\n + x", "select 1 # '\n + x", "select @`a``b`.c, @'d''' + x",
		"select 1.5e-3 + x, 0x1f + x'1f' + b'01' + n'a' + _utf8'a' + x", "select a.b . c + x", "select /*!50000 a */ + x", "select 1e + x, .5 + x, 1. + x",
	} {
		for _, m := range []Mode{0, ANSIQuotes, NoBackslashEscapes, GBK} {
			inPieces(t, []byte(sql), m)
			inPieces(t, []byte(strings.NewReplacer("a", strings.Repeat("a", 90), "x", strings.Repeat("x", 90)).Replace(sql)), m)
		}
	}
	word := strings.Repeat("w", 90)
	for _, tail := range []string{"\x81\\b", "\x81`b", "\x81", "\x81\x30\x81\x30", "''", "\\'", "``", `""`, "\x81\x81", "\xb3@"} {
		for _, quote := range []string{"'", "`", `"`, "", "@"} {
			for _, sql := range []string{"select " + quote + word + tail + word + quote + " + y", "select " + quote + word + tail + tail + quote + " + y"} {
				for _, m := range []Mode{0, GBK, Big5, SJIS, GBK | ANSIQuotes} {
					inPieces(t, []byte(sql), m)
				}
			}
		}
	}
}
