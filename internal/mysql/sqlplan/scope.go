package sqlplan

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/taredb/tare/mysql/sqldigest"
)

// A Scope is a hash of the parameters of a plan besides the text: the default schema, the session modes that
// change how text is read, the class of the user (the rules that name it), and the current rules.
type Scope [16]byte

// scopeDomain separates scope hashes from every other use of SHA-256.
const scopeDomain = "tare sqlplan scope 1\x00"

// ScopeOf returns the scope of a session. Compute it when the session changes its schema, user or modes, and
// when RulesEpoch changes, not for each statement. It does not allocate.
//
// Users that no rule names share a class, and with it their plans. For a statement for which
// [sqldigest.Digester.Divergent] is true, use the result of [Scope.Divergent].
func (p *Planner) ScopeOf(schema, user []byte, m sqldigest.Mode) Scope {
	return p.state.Load().scopeOf(schema, user, m)
}

// scopeOf hashes fields of fixed size: parts of variable length are hashed separately first, so that
// different parts never have the same encoding.
func (s *state) scopeOf(schema, user []byte, m sqldigest.Mode) Scope {
	const fixed = len(scopeDomain) + 8 + 8 + 2*sha256.Size
	var b [fixed]byte
	dst := append(b[:0], scopeDomain...)
	dst = binary.LittleEndian.AppendUint64(dst, s.rulesEpoch)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(m))
	of := sha256.Sum256(schema)
	dst = append(dst, of[:]...)
	class := s.rules.class(user)
	dst = append(dst, class[:]...)
	sum := sha256.Sum256(dst)
	return Scope(sum[:16])
}

// class hashes the set of rules that name this user.
func (s *ruleSet) class(user []byte) [sha256.Size]byte {
	var class [sha256.Size]byte // of a user that no rule names
	var b [sha256.Size + 8]byte
	for i := range s.rules {
		if r := &s.rules[i]; len(r.Users) > 0 && r.names(user) {
			copy(b[:], class[:])
			binary.LittleEndian.PutUint64(b[sha256.Size:], uint64(i))
			class = sha256.Sum256(b[:])
		}
	}
	return class
}
