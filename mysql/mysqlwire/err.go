package mysqlwire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errProgress reports that a packet that starts like an ERR is MariaDB's progress report.
var errProgress = errors.New("packet is a progress report")

// errnoProgress replaces the error number in a progress report.
const errnoProgress = 0xFFFF

// An Err ends a command, a login or a connection with an error.
//
// Specification: MySQL "Protocol::ERR_Packet", MariaDB "ERR_Packet".
type Err struct {
	Number   Errno
	HasState bool    // clear before the greeting, when no capability is negotiated
	State    [5]byte // SQLSTATE; meaningful with HasState
	Message  []byte  // a view of the payload
}

// NewErr returns an Err with the SQLSTATE of its number.
func NewErr(number Errno, message []byte) Err {
	e := Err{Number: number, HasState: true, Message: message}
	copy(e.State[:], number.State())
	return e
}

// Decode reads an ERR packet. It returns errProgress for a progress report. It does not allocate.
func (e *Err) Decode(payload []byte) error {
	const what = "err packet"
	*e = Err{}
	c, err := open(payload, MarkErr, what)
	if err != nil {
		return err
	}
	e.Number = Errno(c.u16())
	if c.short {
		return shortIn(what)
	}
	if IsProgress(payload) {
		return errProgress
	}
	if len(c.rest) > len(e.State) && c.rest[0] == '#' {
		e.HasState = true
		copy(e.State[:], c.rest[1:])
		c.bytes(1 + len(e.State))
	}
	e.Message = c.all()
	return nil
}

// AppendTo appends the payload of e. It does not allocate when dst has room.
func (e Err) AppendTo(dst []byte) []byte {
	dst = append(dst, MarkErr)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(e.Number))
	if e.HasState {
		dst = append(append(dst, '#'), e.State[:]...)
	}
	return append(dst, e.Message...)
}

// String returns the error in the format of the command-line clients.
func (e Err) String() string {
	if !e.HasState {
		return fmt.Sprintf("ERROR %d: %s", e.Number, e.Message)
	}
	return fmt.Sprintf("ERROR %d (%s): %s", e.Number, e.State[:], e.Message)
}

// IsProgress reports whether payload is a progress report rather than an ERR. An ERR may have the same number, which
// SIGNAL sets on MySQL, but has an SQLSTATE after it.
func IsProgress(payload []byte) bool {
	return len(payload) >= 3 && payload[0] == MarkErr && binary.LittleEndian.Uint16(payload[1:]) == errnoProgress &&
		(len(payload) == 3 || payload[3] != '#')
}
