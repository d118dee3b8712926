package web

import (
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/sqldigest"
)

func TestBreakLines(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"SELECT a , b FROM t LEFT JOIN u ON t . id = u . id WHERE a = ? AND ( b = ? OR c BETWEEN ? AND ? ) GROUP BY a ORDER BY b LIMIT ?", `
SELECT a , b
FROM t
LEFT JOIN u ON t . id = u . id
WHERE a = ?
  AND ( b = ? OR c BETWEEN ? AND ? )
GROUP BY a
ORDER BY b
LIMIT ?`},
		{"SELECT a FROM t WHERE id IN ( SELECT id FROM u WHERE x BETWEEN ? AND ? AND y > ? ) UNION ALL SELECT EXTRACT ( YEAR FROM d ) FROM v FOR UPDATE", `
SELECT a
FROM t
WHERE id IN (
  SELECT id
  FROM u
  WHERE x BETWEEN ? AND ?
    AND y > ?
)
UNION ALL
SELECT EXTRACT ( YEAR FROM d )
FROM v
FOR UPDATE`},
		{"INSERT INTO t ( a , b ) VALUES ( ? , ? ) , ... ON DUPLICATE KEY UPDATE a = VALUES ( a ) , b = LEFT ( b , ? )", `
INSERT INTO t ( a , b )
VALUES ( ? , ? ) , ...
ON DUPLICATE KEY UPDATE a = VALUES ( a ) , b = LEFT ( b , ? )`},
		{"UPDATE orders SET state = CASE WHEN a = ? AND b = ? THEN ? ELSE ? END , changed = NOW ( ) WHERE id = ?", `
UPDATE orders
SET state = CASE WHEN a = ? AND b = ? THEN ? ELSE ? END , changed = NOW ( )
WHERE id = ?`},
		{"DELETE FROM t WHERE a = ?", `
DELETE FROM t
WHERE a = ?`},
		{") ) FROM ( (", "\n) )\nFROM ( ("},
	} {
		if got := breakLines(c.text); got != strings.TrimPrefix(c.want, "\n") && got != c.want {
			t.Errorf("got:\n%s\nwant:%s", got, c.want)
		}
	}
}

// FuzzBreakLines expects line breaks to change only white space between tokens, so that the digest is the
// same.
func FuzzBreakLines(f *testing.F) {
	for _, s := range []string{"SELECT 1", "select a/*x*/from(select 1)b where a=-1 and b=.5", "a`b\"c'd", "SELECT 1 FROM -- x\n t", "( )) CASE AND BETWEEN AND", "# x\nSELECT @a , @`b`"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := breakLines(text)
		squeeze := func(s string) string {
			var b strings.Builder
			for _, token := range tokensOf(s) {
				if token.kind != sqldigest.KindSpace {
					b.WriteString(token.text + "\x00")
				}
			}
			return b.String()
		}
		if a, b := squeeze(text), squeeze(got); a != b {
			t.Errorf("%q has other tokens than %q", got, text)
		}
	})
}
