package mysqlwire

import "strconv"

// A StateChangeType says what a change of the session's state is about.
type StateChangeType uint8

// The kinds of state changes, as in MySQL's enum_session_state_type.
const (
	StateSystemVariable  StateChangeType = 0 // Name and Value
	StateSchema          StateChangeType = 1 // Value: the current schema
	StateChanged         StateChangeType = 2 // Value: "1"
	StateGTIDs           StateChangeType = 3 // Value: the GTID set
	StateCharacteristics StateChangeType = 4 // Value: the statement that starts the same transaction
	StateTransaction     StateChangeType = 5 // Value: eight letters, such as "T_______"
)

var stateChangeNames = [...]string{"system variable", "schema", "state", "gtids", "transaction characteristics", "transaction state"}

// String names the kind of change.
func (t StateChangeType) String() string {
	if int(t) < len(stateChangeNames) {
		return stateChangeNames[t]
	}
	return "state change " + strconv.Itoa(int(t))
}

// A StateChange is one change of the session's state. Slices are views of the OK packet.
type StateChange struct {
	Type  StateChangeType
	Name  []byte // of a system variable
	Value []byte // of an unknown type: the raw bytes
}

// AppendTo appends c as it stands in OK.State.
// It does not allocate when dst has room.
func (c StateChange) AppendTo(dst []byte) []byte {
	dst = append(dst, byte(c.Type))
	switch c.Type {
	case StateSystemVariable:
		n := lenencSize(len(c.Name)) + len(c.Name) + lenencSize(len(c.Value)) + len(c.Value)
		dst = AppendLenencInt(dst, uint64(n))
		return AppendLenencString(AppendLenencString(dst, c.Name), c.Value)
	case StateGTIDs:
		dst = AppendLenencInt(dst, uint64(1+lenencSize(len(c.Value))+len(c.Value)))
		return AppendLenencString(append(dst, 0), c.Value)
	case StateSchema, StateChanged, StateCharacteristics, StateTransaction:
		dst = AppendLenencInt(dst, uint64(lenencSize(len(c.Value))+len(c.Value)))
	}
	return AppendLenencString(dst, c.Value)
}

// A StateChangeIter walks over the changes in an OK packet.
//
// Specification: MySQL "Protocol::OK_Packet" (session state information), MariaDB
// "OK_Packet#Session State Info".
type StateChangeIter struct {
	c         cursor
	change    StateChange
	malformed bool
}

// StateChanges iterates over state, the State of an OK packet. It does not allocate.
func StateChanges(state []byte) StateChangeIter { return StateChangeIter{c: cursor{rest: state}} }

// Next goes to the next change and reports whether there is one.
func (it *StateChangeIter) Next() bool {
	if it.malformed || !it.c.more() {
		return false
	}
	t := StateChangeType(it.c.u8())
	data := it.c.lenencBytes()
	if it.c.short {
		return false
	}
	it.change = StateChange{Type: t}
	d := cursor{rest: data}
	switch t {
	case StateSystemVariable:
		it.change.Name = d.lenencBytes()
		it.change.Value = d.lenencBytes()
	case StateGTIDs:
		if d.u8() != 0 { // how the set is encoded: 0, text, is the only one there is
			it.malformed = true
			return false
		}
		it.change.Value = d.lenencBytes()
	case StateSchema, StateChanged, StateCharacteristics, StateTransaction:
		it.change.Value = d.lenencBytes()
	default:
		it.change.Value = d.all()
	}
	it.malformed = d.short || d.more()
	return !it.malformed
}

// Change is the change that Next went to.
func (it *StateChangeIter) Change() StateChange { return it.change }

// Err says why Next stopped before the end; it is nil at the end.
func (it *StateChangeIter) Err() error {
	if it.malformed {
		return malformed("session state", "the change's length does not fit its fields")
	}
	return it.c.done("session state")
}
