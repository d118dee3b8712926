package gateway

import (
	"bytes"
	"slices"

	"github.com/taredb/tare/sqldigest"
)

// charsetModes are the character sets in which the second byte of a character may look like
// a quote or a backslash: they change where a string ends.
var charsetModes = []struct {
	name       string
	mode       sqldigest.Mode
	collations []uint16
}{
	{"big5", sqldigest.Big5, []uint16{1, 84}},
	{"gbk", sqldigest.GBK, []uint16{28, 87}},
	{"gb18030", sqldigest.GBK, []uint16{248, 249, 250}},
	{"sjis", sqldigest.SJIS, []uint16{13, 88}},
	{"cp932", sqldigest.SJIS, []uint16{95, 96}},
}

const charsetMask = sqldigest.Big5 | sqldigest.GBK | sqldigest.SJIS

// collationMode is the mode of the collation that a login asks for.
func collationMode(id uint16) sqldigest.Mode {
	for _, c := range charsetModes {
		if slices.Contains(c.collations, id) {
			return c.mode
		}
	}
	return 0
}

// charsetMode is the mode after a statement that sets the connection's character set. It is
// not known when the text has no name of one, as in SET character_set_client = @x, or
// is not at hand, as for what a prepared statement sets.
func charsetMode(sql []byte, m sqldigest.Mode) (mode sqldigest.Mode, known bool) {
	var l sqldigest.Lexer
	l.Reset(sql, m)
	assigned := false
	for {
		t := l.NextSignificant()
		text := sql[t.Start:t.End]
		switch t.Kind {
		case sqldigest.KindEOF:
			return mode, known
		case sqldigest.KindParam:
			return mode, false
		case sqldigest.KindOperator, sqldigest.KindVariable:
			if assigned && text[0] == '@' || t.Kind == sqldigest.KindVariable {
				return mode, false
			}
			assigned = assigned || bytes.HasSuffix(text, []byte("="))
		case sqldigest.KindString, sqldigest.KindQuotedIdent:
			text = bytes.Trim(text, "'\"`")
			known = true
		case sqldigest.KindIdent, sqldigest.KindKeyword:
			known = true
		}
		for _, c := range charsetModes {
			if bytes.EqualFold(text, []byte(c.name)) {
				mode = c.mode
			}
		}
	}
}

// setCharset follows a change of the connection's character set.
func (s *session) setCharset(charset sqldigest.Mode) { s.setMode(s.mode&^charsetMask | charset) }

func (s *session) setMode(mode sqldigest.Mode) {
	if mode != s.mode {
		s.mode = mode
		s.rescope()
	}
}
