package mysqlwire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformedPacket reports that a payload contradicts its format.
var ErrMalformedPacket = errors.New("malformed mysql packet")

// A cursor reads a payload field by field. The first read past the end sets short; every
// read after it returns zero values, so a decoder checks once, at its end. Views alias
// the payload with capped capacity.
type cursor struct {
	rest  []byte
	short bool
}

// fail marks the payload as too short and drops the rest.
func (c *cursor) fail() {
	c.rest, c.short = nil, true
}

// done returns the error of a decoder that has read its last field.
func (c *cursor) done(what string) error {
	if c.short {
		return shortIn(what)
	}
	return nil
}

// more reports whether bytes are left.
func (c *cursor) more() bool { return len(c.rest) > 0 }

func (c *cursor) u8() uint8 {
	if len(c.rest) < 1 {
		c.fail()
		return 0
	}
	v := c.rest[0]
	c.rest = c.rest[1:]
	return v
}

func (c *cursor) u16() uint16 {
	if len(c.rest) < 2 {
		c.fail()
		return 0
	}
	v := binary.LittleEndian.Uint16(c.rest)
	c.rest = c.rest[2:]
	return v
}

func (c *cursor) u32() uint32 {
	if len(c.rest) < 4 {
		c.fail()
		return 0
	}
	v := binary.LittleEndian.Uint32(c.rest)
	c.rest = c.rest[4:]
	return v
}

// lenenc reads a length-encoded integer.
func (c *cursor) lenenc() uint64 {
	v, n := LenencInt(c.rest)
	if n == 0 {
		c.fail()
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

// lenencBytes reads a length-encoded string.
func (c *cursor) lenencBytes() []byte {
	s, n := LenencString(c.rest)
	if n == 0 {
		c.fail()
		return nil
	}
	c.rest = c.rest[n:]
	return s
}

// bytes reads n bytes.
func (c *cursor) bytes(n int) []byte {
	if n < 0 || n > len(c.rest) {
		c.fail()
		return nil
	}
	s := c.rest[:n:n]
	c.rest = c.rest[n:]
	return s
}

// nul reads up to a required NUL byte and skips it.
func (c *cursor) nul() []byte {
	n := bytes.IndexByte(c.rest, 0)
	if n < 0 {
		c.fail()
		return nil
	}
	s := c.rest[:n:n]
	c.rest = c.rest[n+1:]
	return s
}

// nulOrRest reads up to a NUL byte and skips it, or reads the rest: clients and servers omit the NUL of a
// last field, or the whole field.
func (c *cursor) nulOrRest() []byte {
	if bytes.IndexByte(c.rest, 0) < 0 {
		return c.all()
	}
	return c.nul()
}

// all reads the rest.
func (c *cursor) all() []byte { return c.bytes(len(c.rest)) }

// open consumes the first byte of a payload, which must be want.
func open(payload []byte, want byte, what string) (cursor, error) {
	if len(payload) == 0 {
		return cursor{}, shortIn(what)
	}
	if payload[0] != want {
		return cursor{}, fmt.Errorf("decode %s: %w: first byte is 0x%02x, want 0x%02x",
			what, ErrMalformedPacket, payload[0], want)
	}
	return cursor{rest: payload[1:]}, nil
}

// openCommand consumes the command byte of a message from the client.
func openCommand(payload []byte, want Command, what string) (cursor, error) {
	return open(payload, byte(want), what)
}

func shortIn(what string) error { return fmt.Errorf("decode %s: %w", what, ErrShortPacket) }

// malformed returns an error with the reason why a payload is invalid.
func malformed(what, why string) error {
	return fmt.Errorf("decode %s: %w: %s", what, ErrMalformedPacket, why)
}

// appendNul appends s and a NUL byte.
func appendNul(dst, s []byte) []byte { return append(append(dst, s...), 0) }
