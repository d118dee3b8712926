package mysqlwire

import (
	"encoding/binary"
	"errors"
)

// ErrPre41 reports a client of the protocol before MySQL 4.1, with 16 capability bits and passwords hashed in
// 8 bytes.
var ErrPre41 = errors.New("client speaks the protocol from before MySQL 4.1")

// A HandshakeResponse is the client's response to the greeting: its user, its response to the challenge, and
// the capabilities that the connection uses from then on. All slices are views of the payload.
//
// Capabilities determine the fields on the wire and their form: clear a bit and AppendTo omits the field.
//
// Specification: MySQL "Protocol::HandshakeResponse41", MariaDB "Connection#Client
// Handshake Response".
type HandshakeResponse struct {
	Capabilities Capability // with MariaDB's extended bits when CapLongPassword is clear
	MaxPacket    uint32     // bytes; the longest message the client will send
	Charset      uint8
	User         []byte
	AuthResponse []byte
	Database     []byte // with CapConnectWithDB
	AuthPlugin   []byte // with CapPluginAuth
	Attrs        []byte // with CapConnectAttrs: names and values, read with Attributes
	ZstdLevel    uint8  // with CapZstdCompression
}

// Decode reads a response by the capabilities in it. It does not allocate. For a client of the protocol before MySQL 4.1
// it returns ErrPre41, with Capabilities, MaxPacket, User, AuthResponse and Database as they are in that packet.
func (h *HandshakeResponse) Decode(payload []byte) error {
	const what = "handshake response"
	c := cursor{rest: payload}
	*h = HandshakeResponse{}
	var err error
	h.Capabilities, h.MaxPacket, h.Charset, err = decodeClientHello(&c, what)
	if err == ErrPre41 { //nolint:errorlint // it is not wrapped
		return h.decodePre41(payload)
	}
	if err != nil {
		return err
	}
	h.User = c.nul()
	switch {
	case h.Capabilities.Has(CapPluginAuthLenenc):
		h.AuthResponse = c.lenencBytes()
	case h.Capabilities.Has(CapSecureConnection):
		h.AuthResponse = c.bytes(int(c.u8()))
	default:
		h.AuthResponse = c.nulOrRest()
	}
	if h.Capabilities.Has(CapConnectWithDB) {
		h.Database = c.nulOrRest()
	}
	if h.Capabilities.Has(CapPluginAuth) {
		h.AuthPlugin = c.nulOrRest()
	}
	if h.Capabilities.Has(CapConnectAttrs) && c.more() {
		h.Attrs = c.lenencBytes()
	}
	if h.Capabilities.Has(CapZstdCompression) && c.more() {
		h.ZstdLevel = c.u8()
	}
	return c.done(what)
}

// decodePre41 reads the response of a client from before MySQL 4.1: "Protocol::HandshakeResponse320".
func (h *HandshakeResponse) decodePre41(payload []byte) error {
	c := cursor{rest: payload}
	h.Capabilities, h.MaxPacket = Capability(c.u16()), uint32(c.u16())
	h.MaxPacket |= uint32(c.u8()) << 16
	h.User = c.nul()
	h.AuthResponse = c.nulOrRest()
	if h.Capabilities.Has(CapConnectWithDB) {
		h.Database = c.nulOrRest()
	}
	if err := c.done("handshake response"); err != nil {
		return err
	}
	return ErrPre41
}

// AppendTo appends the payload of h, encoded by h.Capabilities. AuthResponse must fit its
// length of one byte when CapPluginAuthLenenc is clear, or AppendTo panics.
// It does not allocate when dst has room.
func (h *HandshakeResponse) AppendTo(dst []byte) []byte {
	dst = appendClientHello(dst, h.Capabilities, h.MaxPacket, h.Charset)
	dst = appendNul(dst, h.User)
	switch {
	case h.Capabilities.Has(CapPluginAuthLenenc):
		dst = AppendLenencString(dst, h.AuthResponse)
	case h.Capabilities.Has(CapSecureConnection):
		dst = appendByteString(dst, h.AuthResponse)
	default:
		dst = appendNul(dst, h.AuthResponse)
	}
	if h.Capabilities.Has(CapConnectWithDB) {
		dst = appendNul(dst, h.Database)
	}
	if h.Capabilities.Has(CapPluginAuth) {
		dst = appendNul(dst, h.AuthPlugin)
	}
	if h.Capabilities.Has(CapConnectAttrs) {
		dst = AppendLenencString(dst, h.Attrs)
	}
	if h.Capabilities.Has(CapZstdCompression) {
		dst = append(dst, h.ZstdLevel)
	}
	return dst
}

// decodeClientHello reads the first 32 bytes of SSLRequest and HandshakeResponse.
func decodeClientHello(c *cursor, what string) (caps Capability, maxPacket uint32, charset uint8, err error) {
	if len(c.rest) >= 2 && Capability(binary.LittleEndian.Uint16(c.rest))&CapProtocol41 == 0 {
		return 0, 0, 0, ErrPre41
	}
	caps = Capability(c.u32())
	maxPacket = c.u32()
	charset = c.u8()
	filler := c.bytes(23)
	if c.short {
		return 0, 0, 0, shortIn(what)
	}
	if caps&CapLongPassword == 0 {
		caps |= Capability(binary.LittleEndian.Uint32(filler[19:])) << 32
	}
	return caps, maxPacket, charset, nil
}

func appendClientHello(dst []byte, caps Capability, maxPacket uint32, charset uint8) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(caps))
	dst = binary.LittleEndian.AppendUint32(dst, maxPacket)
	dst = append(dst, charset)
	dst = appendPadded(dst, nil, 19)
	if caps.Has(CapLongPassword) {
		return append(dst, 0, 0, 0, 0)
	}
	return binary.LittleEndian.AppendUint32(dst, uint32(caps>>32))
}

// appendByteString appends s with a length of one byte before it.
func appendByteString(dst, s []byte) []byte {
	if len(s) > 255 {
		panic("BUG: authentication answer of more than 255 bytes without CapPluginAuthLenenc")
	}
	return append(append(dst, byte(len(s))), s...)
}

// AppendAttribute appends one name and value to raw attributes.
// It does not allocate when dst has room.
func AppendAttribute(dst []byte, name, value string) []byte {
	dst = append(AppendLenencInt(dst, uint64(len(name))), name...)
	return append(AppendLenencInt(dst, uint64(len(value))), value...)
}
