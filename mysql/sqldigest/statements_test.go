package sqldigest

import (
	"bytes"
	"testing"
)

// FuzzStatements splits texts at semicolons, in pieces of any size: the statements are those of the whole text, and each
// has the digest that it has alone.
func FuzzStatements(f *testing.F) {
	addSeeds(f)
	f.Add([]byte("select ';' /* ; */; -- ;\n; `a;b`; delete from t # ;\n;;x;/*!1;*/;@;\\N;a.;1.;1e;--;'"), uint8(64), uint16(7))
	f.Fuzz(func(t *testing.T, sql []byte, mode uint8, size uint16) {
		m := Mode(mode & 31).WithServer([...]Server{{}, {ServerMariaDB, 101119}, {ServerMySQL, 90704}, {ServerTiDB, 80011}}[mode>>6])
		var one Digester
		for _, size := range []int{1, int(size) + 1} {
			var d Digester
			d.Reset(m)
			start, at := 0, 0
			for ended := false; at < len(sql) || ended; {
				piece := bytes.Clone(sql[at:min(at+size, len(sql))])
				var n int
				n, ended = d.WriteStatement(piece)
				for i := range piece {
					piece[i] = 0xa5
				}
				if at += n; !ended {
					continue
				}
				sum, text := d.Sum(), string(d.Text())
				read := d.Next()
				at := at - read
				if want := one.Digest(sql[start:at], m); sum != want || sql[at-1] != ';' {
					t.Fatalf("in pieces of %d, %q: %q, want %q", size, sql[start:at], text, one.Text())
				}
				if end := firstSemicolon(sql[start:], m); end != at-start {
					t.Fatalf("in pieces of %d, %q ends at %d, want %d", size, sql[start:], at-start, end)
				}
				start = at
			}
			end := firstSemicolon(sql[start:], m) // the last byte may be in a token that Sum ends
			if got, want := d.Sum(), one.Digest(sql[start:], m); got != want || end != -1 && end != len(sql)-start {
				t.Fatalf("in pieces of %d, at the end %q: %q, want %q", size, sql[start:], d.Text(), one.Text())
			}
		}
	})
}

// firstSemicolon returns the offset after the first token that is one, or -1.
func firstSemicolon(sql []byte, m Mode) int {
	var l Lexer
	l.Reset(sql, m)
	for {
		switch t := l.NextSignificant(); {
		case t.Kind == KindEOF:
			return -1
		case t.Kind == KindOperator && sql[t.Start] == ';':
			return t.End
		}
	}
}
