package gateway

import (
	"bytes"

	"github.com/taredb/tare/sqldigest"
)

// charsetOf returns the character set that a statement gives the connection, if it is a SET
// NAMES or SET CHARACTER SET of one name; 0 for every other statement, whose effect is the
// server's to say: assignments, expressions, DEFAULT, several statements.
func charsetOf(sql []byte, m sqldigest.Mode) sqldigest.Charset {
	var l sqldigest.Lexer
	l.Reset(sql, m)
	var words [5][]byte // SET NAMES x COLLATE y; SET CHARACTER SET x
	n := 0
	for {
		t := l.NextSignificant()
		word := sql[t.Start:t.End]
		switch t.Kind {
		case sqldigest.KindEOF:
			if l.Unsure() {
				return 0
			}
			return namedCharset(words[:n])
		case sqldigest.KindString, sqldigest.KindQuotedIdent:
			word = bytes.Trim(word, "'\"`")
		case sqldigest.KindIdent, sqldigest.KindKeyword:
		default:
			return 0
		}
		if n == len(words) {
			return 0
		}
		words[n] = word
		n++
	}
}

func namedCharset(words [][]byte) sqldigest.Charset {
	switch {
	case len(words) < 3 || !isAny(words[0], "SET"):
		return 0
	case isAny(words[1], "NAMES") && (len(words) == 3 || len(words) == 5 && isAny(words[3], "COLLATE")):
		return sqldigest.CharsetNamed(words[2])
	case isAny(words[1], "CHARSET") && len(words) == 3:
		return sqldigest.CharsetNamed(words[2])
	case isAny(words[1], "CHARACTER", "CHAR") && len(words) == 4 && isAny(words[2], "SET"):
		return sqldigest.CharsetNamed(words[3])
	}
	return 0
}

// setCharset follows a change of the connection's character set. With 0 it is not known, and
// asked for before the next statement.
func (s *session) setCharset(c sqldigest.Charset) {
	s.setMode(s.mode.WithCharset(c))
	s.unsure = s.unsure || s.mode.Unknown()
}

func (s *session) setMode(mode sqldigest.Mode) {
	if mode != s.mode {
		s.mode = mode
		s.rescope()
	}
}
