package mysqlwire

import "encoding/binary"

// An OK ends a command that succeeded. With CapDeprecateEOF it also ends the rows of a
// result; its first byte is FE then. Slices are views of the payload.
//
// Specification: MySQL "Protocol::OK_Packet", MariaDB "OK_Packet".
type OK struct {
	Header       byte // MarkOK or MarkEOF
	AffectedRows uint64
	LastInsertID uint64
	Status       Status
	Warnings     uint16
	Info         []byte // human-readable text, such as "Rows matched: 1  Changed: 1  Warnings: 0"

	// State contains the changes of the session if Status has StatusSessionChanged; read it by StateChanges.
	State []byte
}

// Decode reads an OK packet by the connection's capabilities. It does not allocate.
//
// The manual says that Info is the rest of the packet unless CapSessionTrack is set; servers write a length
// before it in either case. Both are accepted: without the capability the rest is decoded as a length-encoded
// string if it is exactly one.
func (o *OK) Decode(payload []byte, caps Capability) error {
	const what = "ok packet"
	*o = OK{}
	if len(payload) == 0 {
		return shortIn(what)
	}
	if payload[0] != MarkOK && payload[0] != MarkEOF {
		return malformed(what, "first byte is neither 0x00 nor 0xfe")
	}
	c := cursor{rest: payload}
	o.Header = c.u8()
	o.AffectedRows = c.lenenc()
	o.LastInsertID = c.lenenc()
	switch {
	case caps.Has(CapProtocol41):
		o.Status = Status(c.u16())
		o.Warnings = c.u16()
	case caps.Has(CapTransactions):
		o.Status = Status(c.u16())
	}
	switch {
	case !c.more():
	case caps.Has(CapSessionTrack):
		o.Info = c.lenencBytes()
		if o.Status.Has(StatusSessionChanged) && c.more() {
			o.State = c.lenencBytes()
		}
	default:
		o.Info = c.all()
		if s, n := LenencString(o.Info); n > 0 && n == len(o.Info) {
			o.Info = s
		}
	}
	return c.done(what)
}

// AppendTo appends the payload of o, with a length before Info as servers write it.
// It does not allocate when dst has room.
func (o *OK) AppendTo(dst []byte, caps Capability) []byte {
	dst = append(dst, o.Header)
	dst = AppendLenencInt(dst, o.AffectedRows)
	dst = AppendLenencInt(dst, o.LastInsertID)
	switch {
	case caps.Has(CapProtocol41):
		dst = binary.LittleEndian.AppendUint16(dst, uint16(o.Status))
		dst = binary.LittleEndian.AppendUint16(dst, o.Warnings)
	case caps.Has(CapTransactions):
		dst = binary.LittleEndian.AppendUint16(dst, uint16(o.Status))
	}
	state := caps.Has(CapSessionTrack) && o.Status.Has(StatusSessionChanged)
	if len(o.Info) > 0 || state {
		dst = AppendLenencString(dst, o.Info)
	}
	if state {
		dst = AppendLenencString(dst, o.State)
	}
	return dst
}

// StateChanges iterates over the command's changes to the session.
func (o *OK) StateChanges() StateChangeIter { return stateChanges(o.State) }
