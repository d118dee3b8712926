package mysqlwire

// A StateChangeType is the kind of a change of the session's state.
type StateChangeType uint8

// The kinds of state changes, as in MySQL's enum_session_state_type.
const (
	StateSystemVariable  StateChangeType = 0 // Name and Value
	StateSchema          StateChangeType = 1 // Value: the current schema
	StateChanged         StateChangeType = 2 // Value: "1"
	StateGTIDs           StateChangeType = 3 // Value: the GTID set
	StateCharacteristics StateChangeType = 4 // Value: the statement that starts an equal transaction
	StateTransaction     StateChangeType = 5 // Value: eight letters, such as "T_______"
)

// A StateChange is one change of the session's state. Slices are views of the OK packet.
type StateChange struct {
	Type  StateChangeType
	Name  []byte // of a system variable
	Value []byte // for an unknown type: the raw bytes
}

// A StateChangeIter iterates over the changes in an OK packet.
//
// Specification: MySQL "Protocol::OK_Packet" (session state information), MariaDB
// "OK_Packet#Session State Info".
type StateChangeIter struct {
	c         cursor
	change    StateChange
	malformed bool
}

// stateChanges iterates over state, the State of an OK packet. It does not allocate.
func stateChanges(state []byte) StateChangeIter { return StateChangeIter{c: cursor{rest: state}} }

// Next advances to the next change and reports whether there is one.
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
		if d.u8() != 0 { // encoding of the set; 0, text, is the only one
			it.malformed = true
			return false
		}
		it.change.Value = d.lenencBytes()
	case StateSchema, StateCharacteristics, StateTransaction:
		it.change.Value = d.lenencBytes()
	default: // StateChanged among them: its value has no length of its own
		it.change.Value = d.all()
	}
	it.malformed = d.short || d.more()
	return !it.malformed
}

// Change returns the current change.
func (it *StateChangeIter) Change() StateChange { return it.change }
