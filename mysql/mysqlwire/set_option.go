package mysqlwire

import "encoding/binary"

// An Option is a setting of the connection.
type Option uint16

// The options of the protocol.
const (
	OptionMultiStatementsOn  Option = 0
	OptionMultiStatementsOff Option = 1
)

// A SetOption changes a setting of the connection: COM_SET_OPTION.
//
// Specification: MySQL "COM_SET_OPTION", MariaDB "COM_SET_OPTION".
type SetOption struct {
	Option Option
}

// Decode reads the message. It does not allocate.
func (s *SetOption) Decode(payload []byte) error {
	const what = "set option"
	*s = SetOption{}
	c, err := openCommand(payload, ComSetOption, what)
	if err != nil {
		return err
	}
	s.Option = Option(c.u16())
	return c.done(what)
}

// AppendTo appends the message. It does not allocate when dst has room.
func (s SetOption) AppendTo(dst []byte) []byte {
	return binary.LittleEndian.AppendUint16(append(dst, byte(ComSetOption)), uint16(s.Option))
}
