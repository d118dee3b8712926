package pool

import (
	"bytes"

	"github.com/taredb/tare/mysql/sqldigest"
)

// Movable reports whether a successful SET statement, executed on another connection after the same statements, leaves the same
// session: it assigns plain values to session variables that Variables lists, or is SET NAMES or SET SESSION TRANSACTION. Such
// statements only overwrite each other: one that is repeated makes its earlier execution superfluous. Values that are computed and
// texts that another character set or sql_mode might change are not plain.
func Movable(sql []byte, m sqldigest.Mode) bool {
	s := setReader{sql: sql}
	s.l.Reset(sql, m)
	s.next()
	if !s.accept("SET") {
		return false
	}
	if s.is("SESSION") || s.is("LOCAL") {
		s.next()
		if s.accept("TRANSACTION") {
			return s.transaction()
		}
		if !s.assignment(true) {
			return false
		}
	} else if !s.item() {
		return false
	}
	for s.acceptOp(",") {
		if !s.item() {
			return false
		}
	}
	s.acceptOp(";")
	return s.t.Kind == sqldigest.KindEOF && !s.l.Unsure()
}

// A setReader reads the tokens of a SET.
type setReader struct {
	sql []byte
	l   sqldigest.Lexer
	t   sqldigest.Token // the current one
}

func (s *setReader) next() { s.t = s.l.NextSignificant() }

func (s *setReader) text() []byte { return s.sql[s.t.Start:s.t.End] }

// isWord reports whether the current token is an unquoted word.
func (s *setReader) isWord() bool {
	return s.t.Kind == sqldigest.KindKeyword || s.t.Kind == sqldigest.KindIdent
}

func (s *setReader) is(word string) bool {
	return s.isWord() && len(word) == s.t.End-s.t.Start && bytes.EqualFold(s.text(), []byte(word))
}

func (s *setReader) accept(word string) bool {
	if !s.is(word) {
		return false
	}
	s.next()
	return true
}

func (s *setReader) acceptOp(op string) bool {
	if s.t.Kind != sqldigest.KindOperator || string(s.text()) != op {
		return false
	}
	s.next()
	return true
}

// item reads an element of the list.
func (s *setReader) item() bool {
	if s.accept("SESSION") || s.accept("LOCAL") {
		return s.assignment(true)
	}
	if s.is("NAMES") {
		s.next()
		return s.names()
	}
	return s.assignment(false)
}

// names reads the rest of SET NAMES.
func (s *setReader) names() bool {
	if !s.name() {
		return false
	}
	return !s.accept("COLLATE") || s.name()
}

// name reads the name of a character set or collation.
func (s *setReader) name() bool {
	switch {
	case s.is("DEFAULT") || s.is("COLLATE"):
		return false
	case s.isWord():
		s.next()
		return true
	}
	return s.plainString()
}

// plainString reads a string that is the same in every character set and sql_mode.
func (s *setReader) plainString() bool {
	b := s.text()
	if s.t.Kind != sqldigest.KindString || len(b) < 2 || b[0] != '\'' || b[len(b)-1] != '\'' {
		return false
	}
	for _, c := range b[1 : len(b)-1] {
		if c < ' ' || c > '~' || c == '\\' || c == '\'' {
			return false
		}
	}
	s.next()
	return true
}

// assignment reads a variable, the operator and its value. scoped: SESSION or LOCAL precedes it.
func (s *setReader) assignment(scoped bool) bool {
	bare := true // the name has no @@
	if s.t.Kind == sqldigest.KindOperator && string(s.text()) == "@@" {
		bare = false
		s.next()
		if !scoped && (s.is("SESSION") || s.is("LOCAL")) {
			s.next()
			if !s.acceptOp(".") {
				return false
			}
			scoped = true
		}
	}
	if !s.isWord() {
		return false
	}
	v, ok := lookup(s.text())
	if !ok || v.scoped && !scoped && !bare { // SET @@transaction_isolation is about the next transaction only
		return false
	}
	s.next()
	if !s.acceptOp("=") && !s.acceptOp(":=") {
		return false
	}
	if v.off {
		return s.off()
	}
	return s.value()
}

// value reads a plain value.
func (s *setReader) value() bool {
	switch {
	case s.t.Kind == sqldigest.KindNumber:
		s.next()
		return true
	case s.acceptOp("-"):
		if s.t.Kind != sqldigest.KindNumber {
			return false
		}
		s.next()
		return true
	case s.isWord(): // the end of the item has to follow: it is no call
		s.next()
		return true
	}
	return s.plainString()
}

// off reads a value that switches a variable off.
func (s *setReader) off() bool {
	if s.t.Kind == sqldigest.KindNumber && string(s.text()) == "0" {
		s.next()
		return true
	}
	return s.accept("OFF") || s.accept("FALSE")
}

// transaction reads the rest of SET SESSION TRANSACTION.
func (s *setReader) transaction() bool {
	for {
		for s.isWord() {
			s.next()
		}
		if !s.acceptOp(",") {
			s.acceptOp(";")
			return s.t.Kind == sqldigest.KindEOF && !s.l.Unsure()
		}
	}
}

// lookup returns what is known about a variable that may be set.
func lookup(name []byte) (variable, bool) {
	var lower [40]byte
	if len(name) > len(lower) {
		return variable{}, false
	}
	b := lower[:len(name)]
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		b[i] = c
	}
	v, ok := movable[string(b)]
	return v, ok
}
