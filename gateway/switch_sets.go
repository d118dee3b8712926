package gateway

import (
	"bytes"
	"iter"

	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/mysql/sqlplan"
)

// maxSets bounds the kept SET statements of a session, in bytes.
const maxSets = 16 << 10

// settings are the distinct SET statements of a session, ordered by their most recent execution. Replayed in
// order they bring a new connection into the session's state.
type settings struct {
	text []byte
	ends []int32 // of each statement in text
}

// all yields the statements, as views.
func (s *settings) all() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		at := int32(0)
		for _, end := range s.ends {
			if !yield(s.text[at:end:end]) {
				return
			}
			at = end
		}
	}
}

// keep appends a statement, and removes an equal earlier one. It reports whether there was room. It does not
// allocate for an equal one.
func (s *settings) keep(sql []byte) bool {
	at := int32(0)
	for i, end := range s.ends {
		if !bytes.Equal(s.text[at:end], sql) {
			at = end
			continue
		}
		if i == len(s.ends)-1 {
			return true
		}
		n := end - at
		copy(s.text[at:], s.text[end:])
		copy(s.text[len(s.text)-int(n):], sql)
		copy(s.ends[i:], s.ends[i+1:])
		for k := i; k < len(s.ends)-1; k++ {
			s.ends[k] -= n
		}
		s.ends[len(s.ends)-1] = int32(len(s.text))
		return true
	}
	if len(s.text)+len(sql) > maxSets {
		return false
	}
	s.text = append(s.text, sql...)
	s.ends = append(s.ends, int32(len(s.text)))
	return true
}

func (s *settings) clear() { *s = settings{} }

// A setKind is the treatment of a SET statement.
type setKind uint8

const (
	setPins    setKind = iota // repeating it may have another effect
	setNothing                // it does not affect the session
	setNext                   // it affects the next transaction only
	setKept                   // it is replayed
)

// judge returns the treatment of a successful SET statement with these effects. System variables may be set
// from any expression, since their values are compared afterwards; user variables only from literals, since
// theirs are not.
func (s *settings) judge(sql []byte, m sqldigest.Mode, effects sqlplan.Effect) setKind {
	const others = ^(replayedEffects | sqlplan.EffectGlobalVar | sqlplan.EffectImplicitCommit | sqlplan.EffectInsertID)
	session := effects.Any(replayedEffects)
	switch {
	case effects&others != 0:
		return setPins
	case effects.Has(sqlplan.EffectGlobalVar):
		if session {
			return setPins
		}
		return setNothing
	case !session:
		return setNothing
	}
	var l sqldigest.Lexer
	l.Reset(sql, m)
	user := effects.Has(sqlplan.EffectUserVarWrite)
	assigned := false // the previous token was an assignment
	for n := 0; ; n++ {
		t := l.NextSignificant()
		word := sql[t.Start:t.End]
		value := assigned
		assigned = false
		switch t.Kind {
		case sqldigest.KindEOF:
			return setKept
		case sqldigest.KindParam, sqldigest.KindExecOpen:
			return setPins
		case sqldigest.KindOperator:
			assigned = bytes.Equal(word, []byte("=")) || bytes.Equal(word, []byte(":="))
			if user && (word[0] == '(' || value && word[0] == '@') {
				return setPins
			}
		case sqldigest.KindKeyword, sqldigest.KindIdent:
			switch {
			case n == 1 && isAny(word, "TRANSACTION"):
				return setNext
			case isAny(word, "INSERT_ID", "GTID_NEXT", "GTID_SEQ_NO"):
				return setPins // used up by a statement
			case user && value && !isAny(word, "TRUE", "FALSE", "NULL", "DEFAULT", "ON", "OFF"):
				return setPins
			}
		}
	}
}
