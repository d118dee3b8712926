package sqldigest

import (
	"bytes"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
)

func seeds() []string {
	return []string{
		"SELECT 1", "select * from t where a in (1,2,3) and b = 'x' -- c", "insert into t values (1,'a'),(2,'b')",
		"/*!50000 select */ 1 /*M!100100 + 2 */", "select /*+ MAX_EXECUTION_TIME(1000) */ a.b.c from `x`.`y``z`",
		"select _utf8mb4'a' 'b', N'c', x'41', b'1', 0x41, 0b1, -1, +.5e-3, 1e10, 2fast, date '2020-01-01'",
		"set @a=1,@'b c'=2,@@global.x=3, @@y = NULL", "grant all on *.* to 'u'@'%', bob@localhost",
		"'", "\"", "`", "/*", "--", "#", "\\N", "@", "@@", "x'", "/*!", "a.", "1.", "1e", "1e+", "...", "?, ...",
		"(?), ...", "ROW(1,2),ROW(3,4)", "- - - 1", "a - -1", "select 'a\\'b' \"c\"\"d\"", "; ; select 1 ; ;",
		"SELECT 1 /*a='b%20c',d='e'*/", "5--/*c*/1", "5--#c\n1", "1--/*c", "/*!99999 'a' */ /*!40000 /* x */", "/*M! 1 *//*!5070",
		"select '\xb1\\', `\xb1`\xe0``, a\xb1@b, @'\x81\\' from \x81\\x where \xb1 like '\\\x81\\'", "select count(*), count (*), `count`(1)", "is not null, not null, null, true",
	}
}

func addSeeds(f *testing.F) {
	for _, s := range seeds() {
		for m := range uint8(32) {
			f.Add([]byte(s), m, uint16(3))
		}
	}
}

// digestOf returns digest, text and tags of a statement that is written in pieces of n bytes.
func digestOf(sql []byte, m Mode, n int) (Digest, string, string) {
	var d Digester
	d.Reset(m)
	for len(sql) > 0 {
		k := min(n, len(sql))
		piece := bytes.Clone(sql[:k])
		d.Write(piece)
		for i := range piece {
			piece[i] = 0xa5 // Write must not retain it
		}
		sql = sql[k:]
	}
	return sumOf(&d)
}

func sumOf(d *Digester) (Digest, string, string) {
	sum := d.Sum()
	var tags bytes.Buffer
	for k, v := range d.Tags() {
		tags.Write(k)
		tags.WriteByte('=')
		tags.Write(v)
		tags.WriteByte('\n')
	}
	return sum, string(d.Text()), tags.String()
}

func FuzzDigest(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, sql []byte, mode uint8, n uint16) {
		defer alloctest.Bounded(t, 64<<20)()
		m := Mode(mode & 31)
		if m&anyCharset == 0 && mode&32 != 0 {
			m = m.WithCharset(CharsetNamed([]byte([...]string{"latin1", "utf8mb4", "cp866", "euckr"}[n%4])))
		}
		m = m.WithServer([...]Server{{}, {ServerMariaDB, 101119}, {ServerMySQL, 90704}, {ServerTiDB, 80011}}[mode>>6])
		var d Digester
		d.Digest(sql, m)
		sum, text, tags := sumOf(&d)
		if mode>>6 == 0 && divergent(sql) && !d.Divergent() {
			t.Fatal("not divergent")
		}
		for _, n := range []int{1, int(n) + 1} {
			if s, x, g := digestOf(sql, m, n); s != sum || x != text || g != tags {
				t.Fatalf("in pieces of %d:\n got %s %q %q\nwant %s %q %q", n, s, x, g, sum, text, tags)
			}
		}
		if d.TextTruncated() {
			return
		}
		again := d.Digest([]byte(text), m)
		if got := string(d.Text()); got != text || again != sum {
			t.Fatalf("normalizing again:\n got %q\nwant %q", got, text)
		}
		red := AppendRedacted(nil, sql, m)
		if d.Digest(red, m) != sum {
			t.Fatalf("redacted %q\n text %q\n want %q", red, d.Text(), text)
		}
		if again := AppendRedacted(nil, red, m); !bytes.Equal(again, red) {
			t.Fatalf("redacted %q\nagain %q", red, again)
		}
		tile(t, sql, m)
		var l Lexer
		l.Reset(red, m)
		for tok := l.Next(); tok.Kind != KindEOF; tok = l.Next() {
			switch tok.Kind {
			case KindString, KindNumber, KindHost, KindNull:
				t.Fatalf("redacted %q holds the literal %q", red, red[tok.Start:tok.End])
			case KindComment:
				if c := string(red[tok.Start:tok.End]); c != "/**/" && c != "#" {
					t.Fatalf("redacted %q holds the comment %q", red, c)
				}
			}
		}
	})
}

// tile checks that the tokens of sql tile it.
func tile(t *testing.T, sql []byte, m Mode) {
	var l Lexer
	l.Reset(sql, m)
	for pos := 0; ; {
		tok := l.Next()
		if tok.Start != pos || tok.End < tok.Start || tok.End == tok.Start != (tok.Kind == KindEOF) {
			t.Fatalf("token %+v at %d", tok, pos)
		}
		if tok.Kind == KindEOF {
			if pos != len(sql) {
				t.Fatalf("EOF at %d of %d", pos, len(sql))
			}
			return
		}
		pos = tok.End
	}
}
