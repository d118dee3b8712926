package mysqlwire

import "encoding/binary"

// A ChangeUser logs in again on an open connection: COM_CHANGE_USER. The server responds with OK, ERR or an
// authentication switch. Slices are views of the payload.
//
// Specification: MySQL "COM_CHANGE_USER", MariaDB "COM_CHANGE_USER".
type ChangeUser struct {
	User         []byte
	AuthResponse []byte
	Database     []byte
	Charset      uint16 // 0 from old clients, whose packet ends before it
	AuthPlugin   []byte // with CapPluginAuth
	Attrs        []byte // with CapConnectAttrs; read with Attributes
}

// Decode reads the message by the connection's capabilities. It does not allocate.
func (u *ChangeUser) Decode(payload []byte, caps Capability) error {
	const what = "change user"
	*u = ChangeUser{}
	c, err := openCommand(payload, ComChangeUser, what)
	if err != nil {
		return err
	}
	u.User = c.nul()
	// The length is one byte here even if CapPluginAuthLenenc is set.
	if caps.Has(CapSecureConnection) {
		u.AuthResponse = c.bytes(int(c.u8()))
	} else {
		u.AuthResponse = c.nul()
	}
	u.Database = c.nulOrRest()
	if c.more() {
		u.Charset = c.u16()
	}
	if caps.Has(CapPluginAuth) && c.more() {
		u.AuthPlugin = c.nulOrRest()
	}
	if caps.Has(CapConnectAttrs) && c.more() {
		u.Attrs = c.lenencBytes()
	}
	return c.done(what)
}

// AppendTo appends the message. AuthResponse must not be longer than 255 bytes, or
// AppendTo panics. It does not allocate when dst has room.
func (u *ChangeUser) AppendTo(dst []byte, caps Capability) []byte {
	dst = append(dst, byte(ComChangeUser))
	dst = appendNul(dst, u.User)
	if caps.Has(CapSecureConnection) {
		dst = appendByteString(dst, u.AuthResponse)
	} else {
		dst = appendNul(dst, u.AuthResponse)
	}
	dst = appendNul(dst, u.Database)
	dst = binary.LittleEndian.AppendUint16(dst, u.Charset)
	if caps.Has(CapPluginAuth) {
		dst = appendNul(dst, u.AuthPlugin)
	}
	if caps.Has(CapConnectAttrs) {
		dst = AppendLenencString(dst, u.Attrs)
	}
	return dst
}
