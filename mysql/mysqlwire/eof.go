package mysqlwire

// maxEOF is the length in bytes below which a payload that starts with FE is an EOF; a longer one may be a
// text row whose first value is 16 MiB or longer.
const maxEOF = 9

// An EOF ends column definitions, and rows unless CapDeprecateEOF is negotiated.
//
// Specification: MySQL "Protocol::EOF_Packet", MariaDB "EOF_Packet".
type EOF struct {
	Warnings uint16
	Status   Status
}

// IsEOF reports whether payload is an EOF rather than a row, without CapDeprecateEOF.
func IsEOF(payload []byte) bool {
	return len(payload) > 0 && len(payload) < maxEOF && payload[0] == MarkEOF
}

// Decode reads an EOF by the connection's capabilities. It does not allocate.
func (e *EOF) Decode(payload []byte, caps Capability) error {
	const what = "eof packet"
	*e = EOF{}
	c, err := open(payload, MarkEOF, what)
	if err != nil {
		return err
	}
	if len(payload) >= maxEOF {
		return malformed(what, "9 bytes or longer")
	}
	if caps.Has(CapProtocol41) {
		e.Warnings = c.u16()
		e.Status = Status(c.u16())
	}
	return c.done(what)
}
