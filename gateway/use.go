package gateway

import (
	"bytes"

	"github.com/taredb/tare/sqldigest"
)

// usedSchema is the schema that the last USE in sql changes to, unquoted.
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

// unquote takes the quotes off an identifier.
func unquote(s []byte) []byte {
	q := s[:1]
	s = bytes.TrimSuffix(s[1:], q)
	return bytes.ReplaceAll(s, append(bytes.Clone(q), q...), q)
}
