package gateway

import (
	"bytes"

	"github.com/taredb/tare/mysql/sqldigest"
)

// usedSchema returns the unquoted schema of the last USE in sql.
func usedSchema(sql []byte, m sqldigest.Mode) (name []byte, ok bool) {
	var l sqldigest.Lexer
	l.Reset(sql, m)
	start := true // of a statement
	for {
		t := l.NextSignificant()
		if t.Kind == sqldigest.KindEOF {
			return name, ok
		}
		word := sql[t.Start:t.End]
		if start && bytes.EqualFold(word, []byte("USE")) {
			t = l.NextSignificant()
			switch t.Kind {
			case sqldigest.KindQuotedIdent:
				name, ok = unquote(sql[t.Start:t.End]), true
			case sqldigest.KindIdent, sqldigest.KindKeyword:
				name, ok = sql[t.Start:t.End:t.End], true
			}
		}
		start = t.Kind == sqldigest.KindOperator && len(word) == 1 && word[0] == ';'
	}
}

// unquote removes the quotes of an identifier.
func unquote(s []byte) []byte {
	q := s[:1]
	s = bytes.TrimSuffix(s[1:], q)
	return bytes.ReplaceAll(s, append(bytes.Clone(q), q...), q)
}

// preparedName returns the unquoted name in a PREPARE, EXECUTE or DEALLOCATE PREPARE, as a view of sql if
// possible. EXECUTE IMMEDIATE has none. It allocates only for a name that contains a quote.
func preparedName(sql []byte, m sqldigest.Mode) []byte {
	var l sqldigest.Lexer
	l.Reset(sql, m)
	verb := false
	for {
		t := l.NextSignificant()
		word := sql[t.Start:t.End:t.End]
		switch {
		case t.Kind == sqldigest.KindEOF:
			return nil
		case isAny(word, "PREPARE", "EXECUTE", "DEALLOCATE", "DROP"): // some consist of two words
			verb = true
		case !verb: // SET STATEMENT … FOR
		case t.Kind == sqldigest.KindQuotedIdent:
			if len(word) > 1 && bytes.IndexByte(word[1:], word[0]) == len(word)-2 {
				return word[1 : len(word)-1 : len(word)-1]
			}
			return unquote(word)
		case isAny(word, "IMMEDIATE"):
			return nil
		default:
			return word
		}
	}
}

// isAny reports whether word is one of a few words, which are in upper case.
func isAny(word []byte, words ...string) bool {
	for _, w := range words {
		if len(word) == len(w) && bytes.EqualFold(word, []byte(w)) {
			return true
		}
	}
	return false
}

// charsetOf returns the character set that a statement sets for the connection, if it is a SET NAMES or SET
// CHARACTER SET of one name. It returns 0 for every other statement, whose effect only the server knows:
// assignments, expressions, DEFAULT, several statements.
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
