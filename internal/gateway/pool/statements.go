package pool

import (
	"crypto/sha256"
	"iter"
)

// A StatementKey identifies what a statement was prepared from.
type StatementKey [sha256.Size]byte

// NewStatementKey returns the key of a text that is prepared with a default schema, after SET statements that decide how it is read.
func NewStatementKey(schema string, sets iter.Seq[[]byte], sql []byte) (k StatementKey) {
	h := sha256.New()
	add := func(b []byte) {
		n := len(b)
		_, _ = h.Write([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
		_, _ = h.Write(b)
	}
	add([]byte(schema))
	for s := range sets {
		add(s)
	}
	add(nil)
	add(sql)
	h.Sum(k[:0])
	return k
}

// A Statement is prepared on a connection, for all sessions.
type Statement struct {
	ID       uint32     // the server's
	Owner    uint64     // the client's statement whose parameter types the server has; 0: none
	Cursored bool       // an execution has opened a cursor: MySQL responds to later ones in another way
	Busy     bool       // it has an open cursor, or values that were sent in pieces: it is not closed for others
	Params   ParamTypes // of MySQL

	used uint64
}

// Statements are the statements that are prepared on a connection.
type Statements struct {
	byKey map[StatementKey]*Statement
	uses  uint64
}

// Find returns the statement of a key, which is the most recently used one then; nil: there is none. It does not allocate.
func (s *Statements) Find(key *StatementKey) *Statement {
	st := s.byKey[*key]
	if st != nil {
		s.uses++
		st.used = s.uses
	}
	return st
}

// Put adds a statement, and returns the server's numbers of those to close: an equal one, and above limit the one that was not used
// for the longest time.
func (s *Statements) Put(key StatementKey, id uint32, limit int) (st *Statement, closed []uint32) {
	if s.byKey == nil {
		s.byKey = make(map[StatementKey]*Statement)
	}
	if old := s.byKey[key]; old != nil {
		closed = append(closed, old.ID)
		delete(s.byKey, key)
	}
	if len(s.byKey) >= limit {
		var oldest StatementKey
		var found *Statement
		for k, st := range s.byKey {
			if !st.Busy && (found == nil || st.used < found.used) {
				oldest, found = k, st
			}
		}
		if found != nil {
			closed = append(closed, found.ID)
			delete(s.byKey, oldest)
		}
	}
	s.uses++
	st = &Statement{ID: id, used: s.uses}
	s.byKey[key] = st
	return st, closed
}

// Remove removes a statement.
func (s *Statements) Remove(key *StatementKey) { delete(s.byKey, *key) }

// RemoveIdle removes the statements that are not busy, and returns their numbers.
func (s *Statements) RemoveIdle() (closed []uint32) {
	for k, st := range s.byKey {
		if !st.Busy {
			closed = append(closed, st.ID)
			delete(s.byKey, k)
		}
	}
	return closed
}

// Len returns the number of statements.
func (s *Statements) Len() int { return len(s.byKey) }

// Clear removes all: the server has forgotten them.
func (s *Statements) Clear() { clear(s.byKey) }
