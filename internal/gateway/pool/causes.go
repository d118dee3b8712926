package pool

import (
	"strings"

	"github.com/taredb/tare/mysql/sqldigest"
)

// A Kind is what statements create in a session that cannot move, and end.
type Kind uint8

// The kinds.
const (
	KindNone Kind = iota
	KindTempTable
	KindNamedLock
	KindPrepared // by PREPARE … FROM
	KindHandler
	KindXA
)

// A Cause is what a statement does with something of a kind.
type Cause struct {
	Kind Kind
	Name string // as it is written; of a table after its schema, if that is written
	Does Does
}

// Does is what a statement does with a cause of a pin.
type Does uint8

// What statements do.
const (
	DoesAnything Does = iota // Name is not all that it may create
	DoesCreate               // Name, if it is not there
	DoesAdd                  // Name: it has to be ended once more
	DoesEnd                  // Name
	DoesEndAll               // of the kind
	DoesUse                  // it neither creates nor ends one
)

// CauseOf returns what a single statement that is not prepared does.
func CauseOf(sql []byte, m sqldigest.Mode) Cause {
	s := setReader{sql: sql}
	s.l.Reset(sql, m)
	s.next()
	switch {
	case s.accept("CREATE"):
		if s.accept("OR") && !s.accept("REPLACE") || !s.accept("TEMPORARY") || !s.accept("TABLE") {
			return Cause{}
		}
		if s.accept("IF") && (!s.accept("NOT") || !s.accept("EXISTS")) {
			return Cause{Kind: KindTempTable}
		}
		return s.named(KindTempTable, DoesCreate, false)
	case s.accept("DROP"), s.accept("DEALLOCATE"):
		if s.accept("PREPARE") {
			return s.named(KindPrepared, DoesEnd, true)
		}
		if s.accept("TEMPORARY"); !s.accept("TABLE") {
			return Cause{}
		}
		if s.accept("IF") && !s.accept("EXISTS") {
			return Cause{Kind: KindTempTable}
		}
		return s.named(KindTempTable, DoesEnd, true)
	case s.accept("ALTER"), s.accept("RENAME"):
		return Cause{Kind: KindTempTable} // may rename one
	case s.accept("PREPARE"):
		return s.named(KindPrepared, DoesCreate, false)
	case s.accept("SELECT"), s.accept("DO"):
		return s.lock()
	case s.accept("HANDLER"):
		return s.handler()
	case s.accept("XA"):
		switch {
		case s.is("COMMIT"), s.is("ROLLBACK"):
			return Cause{Kind: KindXA, Does: DoesEndAll}
		case s.is("RECOVER"):
			return Cause{Kind: KindXA, Does: DoesUse}
		}
		return Cause{Kind: KindXA, Does: DoesCreate}
	}
	return Cause{}
}

// ends reports whether the statement ends.
func (s *setReader) ends() bool {
	s.acceptOp(";")
	return s.t.Kind == sqldigest.KindEOF && !s.l.Unsure()
}

// named reads a name. whole: the statement ends after it.
func (s *setReader) named(k Kind, does Does, whole bool) Cause {
	name, ok := s.qualified()
	if !ok || whole && !s.ends() {
		return Cause{Kind: k}
	}
	return Cause{k, name, does}
}

// qualified reads a name, with that of a schema if there is one.
func (s *setReader) qualified() (name string, ok bool) {
	for {
		if !s.isWord() && s.t.Kind != sqldigest.KindQuotedIdent {
			return "", false
		}
		part := string(s.text())
		if s.t.Kind == sqldigest.KindQuotedIdent {
			if len(part) < 3 || part[0] != part[len(part)-1] || strings.ContainsAny(part[1:len(part)-1], "`\".") {
				return "", false
			}
			part = part[1 : len(part)-1]
		}
		name += part
		if s.next(); !s.acceptOp(".") {
			return name, true
		}
		name += "."
	}
}

// lock reads the rest of a SELECT or DO of a function of locks alone.
func (s *setReader) lock() Cause {
	does := DoesAnything
	switch {
	case s.accept("GET_LOCK"):
		does = DoesAdd
	case s.accept("RELEASE_LOCK"):
		does = DoesEnd
	case s.accept("RELEASE_ALL_LOCKS"):
		if s.acceptOp("(") && s.acceptOp(")") && s.ends() {
			return Cause{Kind: KindNamedLock, Does: DoesEndAll}
		}
		return Cause{Kind: KindNamedLock}
	default:
		return Cause{}
	}
	if !s.acceptOp("(") {
		return Cause{Kind: KindNamedLock}
	}
	name := string(s.text())
	if !s.plainString() {
		return Cause{Kind: KindNamedLock}
	}
	if does == DoesAdd && (!s.acceptOp(",") || !s.value()) || !s.acceptOp(")") || !s.ends() {
		return Cause{Kind: KindNamedLock}
	}
	return Cause{KindNamedLock, name, does}
}

// handler reads the rest of a HANDLER.
func (s *setReader) handler() Cause {
	name, ok := s.qualified()
	switch {
	case !ok:
	case s.accept("READ"):
		return Cause{Kind: KindHandler, Does: DoesUse}
	case s.accept("CLOSE") && s.ends():
		return Cause{KindHandler, name, DoesEnd}
	case s.accept("OPEN"):
		if i := strings.LastIndexByte(name, '.'); i >= 0 {
			name = name[i+1:]
		}
		s.accept("AS")
		if !s.ends() {
			if name, ok = s.qualified(); !ok || !s.ends() {
				break
			}
		}
		return Cause{KindHandler, name, DoesCreate}
	}
	return Cause{Kind: KindHandler}
}
