package mysqlwire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrRefused reports an ERR packet instead of the handshake: the server refuses the connection before its
// greeting (too many connections, host blocked). Decode the payload as Err; it has no SQLSTATE.
var ErrRefused = errors.New("server refused the connection before its greeting")

const (
	handshakeVersion = 10
	authDataPart1    = 8
	minAuthDataPart2 = 13 // with the NUL at its end
	// maxAuthData is the longest challenge whose length, with the NUL, fits one byte.
	maxAuthData = 254
)

// A Handshake is the server's greeting: the first packet of a connection.
//
// ServerVersion and AuthPlugin are views of the payload. AuthData is not: the packet contains it in two
// parts, so Decode assembles it in a slice that the next Decode overwrites.
//
// Specification: MySQL "Protocol::HandshakeV10", MariaDB "Connection#Initial Handshake
// Packet".
type Handshake struct {
	ProtocolVersion uint8
	ServerVersion   []byte
	ConnectionID    uint32
	AuthData        []byte     // the challenge, without the NUL that terminates it on the wire
	Capabilities    Capability // with MariaDB's extended bits when CapLongPassword is clear
	Charset         uint8      // the low byte of the server's collation id
	Status          Status
	AuthPlugin      []byte // empty without CapPluginAuth

	authOwned []byte // backing array of AuthData
}

// Decode reads a greeting of protocol version 10. It returns ErrRefused for an ERR packet. It allocates only
// in the first call.
func (h *Handshake) Decode(payload []byte) error {
	if len(payload) > 0 && payload[0] == MarkErr {
		return ErrRefused
	}
	c := cursor{rest: payload}
	version := c.u8()
	if !c.short && version != handshakeVersion {
		return fmt.Errorf("decode handshake: %w: protocol version %d, want %d",
			ErrMalformedPacket, version, handshakeVersion)
	}
	*h = Handshake{ProtocolVersion: version, authOwned: h.authOwned}
	h.ServerVersion = c.nul()
	h.ConnectionID = c.u32()
	part1 := c.bytes(authDataPart1)
	c.u8() // filler
	h.Capabilities = Capability(c.u16())
	var part2 []byte
	if c.more() || h.Capabilities&(CapProtocol41|CapSecureConnection) != 0 { // servers before 4.1 end here
		h.Charset = c.u8()
		h.Status = Status(c.u16())
		h.Capabilities |= Capability(c.u16()) << 16
		authLen := int(c.u8())
		filler := c.bytes(10)
		if !c.short && h.Capabilities&CapLongPassword == 0 {
			h.Capabilities |= Capability(binary.LittleEndian.Uint32(filler[6:])) << 32
		}
		if h.Capabilities.Has(CapSecureConnection) {
			part2 = c.bytes(max(minAuthDataPart2, authLen-authDataPart1))
			if len(part2) > 0 {
				part2 = part2[:len(part2)-1]
			}
		}
		if h.Capabilities.Has(CapPluginAuth) {
			h.AuthPlugin = c.nulOrRest()
		}
	}
	h.authOwned = append(append(h.authOwned[:0], part1...), part2...)
	h.AuthData = h.authOwned
	return c.done("handshake")
}

// AppendTo appends the payload of h. AuthData shorter than 20 bytes is padded with NUL bytes; if it is longer
// than 254 bytes, AppendTo panics, because the length has one byte. It does not allocate when dst has room.
func (h *Handshake) AppendTo(dst []byte) []byte {
	if len(h.AuthData) > maxAuthData {
		panic("BUG: Handshake.AppendTo: AuthData is longer than 254 bytes")
	}
	caps := h.Capabilities
	dst = append(dst, h.ProtocolVersion)
	dst = appendNul(dst, h.ServerVersion)
	dst = binary.LittleEndian.AppendUint32(dst, h.ConnectionID)
	dst = appendPadded(dst, h.AuthData[:min(len(h.AuthData), authDataPart1)], authDataPart1)
	dst = append(dst, 0)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(caps))
	dst = append(dst, h.Charset)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(h.Status))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(caps>>16))
	if caps.Has(CapPluginAuth) || len(h.AuthData) >= authDataPart1+minAuthDataPart2 {
		dst = append(dst, byte(max(len(h.AuthData)+1, authDataPart1+minAuthDataPart2)))
	} else {
		dst = append(dst, 0)
	}
	dst = append(dst, 0, 0, 0, 0, 0, 0)
	if caps.Has(CapLongPassword) {
		dst = append(dst, 0, 0, 0, 0)
	} else {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(caps>>32))
	}
	if caps.Has(CapSecureConnection) {
		part2 := h.AuthData[min(len(h.AuthData), authDataPart1):]
		dst = appendPadded(dst, part2, max(minAuthDataPart2, len(part2)+1))
	}
	if caps.Has(CapPluginAuth) {
		dst = appendNul(dst, h.AuthPlugin)
	}
	return dst
}

// appendPadded appends s and NUL bytes up to n bytes.
func appendPadded(dst, s []byte, n int) []byte {
	dst = append(dst, s...)
	for range n - len(s) {
		dst = append(dst, 0)
	}
	return dst
}
