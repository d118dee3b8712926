package mysqlconn

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// storedHeaderLen is the length of the header of the compressed protocol's frames: the payload's length, a
// sequence number, and the inflated length, which is 0 in stored frames.
const storedHeaderLen = 7

// sniffLen is the number of bytes that decide whether a peer sends frames: a header and the first bytes of a
// zlib stream.
const sniffLen = storedHeaderLen + 2

var errFrame = errors.New("malformed frame of the compressed protocol")

// A stored serves a client that sets CLIENT_COMPRESS although it was not offered. Some of these clients use
// the compressed protocol nonetheless, others only the capabilities of both sides. The first command decides.
// The former receive stored frames, one per packet, because some cannot read a packet that spans several.
//
// Reads resume after a deadline: a compressed frame is read whole before it is inflated.
type stored struct {
	net.Conn

	state storedState
	sniff []byte // bytes read before the decision; afterwards, those of them not yet returned

	head     [storedHeaderLen]byte
	headLen  int
	left     int    // bytes of the frame's payload not yet read
	inflated int    // inflated length of the payload; 0: it is stored
	deflated []byte // received part of the payload
	plain    bytes.Reader

	seq        atomic.Uint32 // of the next frame to the client
	out        []byte        // frames under construction
	packet     [mysqlwire.HeaderLen]byte
	packetLen  int // received bytes of the header of the packet to the client
	packetLeft int // bytes of the packet not yet sent
	frameLeft  int // bytes of the frame not yet sent
}

type storedState uint8

const (
	storedUnknown storedState = iota // no command has arrived
	storedFrames
	storedPlain
)

// AcceptCompression makes c accept a client that sets CLIENT_COMPRESS although it was not offered: see
// stored. It is called before the first command. Nothing may be buffered.
func (c *Conn) AcceptCompression() {
	if c.r != c.w || len(c.out) > 0 {
		panic("BUG: AcceptCompression with buffered bytes")
	}
	c.nc = &stored{Conn: c.nc}
}

func (s *stored) Read(p []byte) (int, error) {
	if s.state == storedUnknown {
		if err := s.decide(); err != nil {
			return 0, err
		}
	}
	if s.state == storedPlain {
		return s.source(p)
	}
	for {
		if s.plain.Len() > 0 {
			return s.plain.Read(p)
		}
		if s.left == 0 {
			if err := s.header(); err != nil {
				return 0, err
			}
			continue
		}
		if s.inflated == 0 {
			n, err := s.source(p[:min(len(p), s.left)])
			s.left -= n
			return n, err
		}
		if err := s.inflate(); err != nil {
			return 0, err
		}
	}
}

// source reads from the connection, starting with the bytes read for the decision.
func (s *stored) source(p []byte) (int, error) {
	if len(s.sniff) == 0 {
		return s.Conn.Read(p)
	}
	n := copy(p, s.sniff)
	s.sniff = s.sniff[n:]
	return n, nil
}

// decide reads the first command until its bytes show whether it is in a frame. The two forms differ in the
// byte after the sequence number. In a packet it is the command, which is never 0. In a frame it is 0 if the
// frame is stored; otherwise a zlib stream of at least 8 bytes follows the header.
func (s *stored) decide() error {
	var b [sniffLen]byte
	for s.state == storedUnknown {
		want := mysqlwire.HeaderLen + 1
		if len(s.sniff) >= want {
			want = sniffLen
		}
		n, err := s.Conn.Read(b[:want-len(s.sniff)])
		s.sniff = append(s.sniff, b[:n]...)
		if err != nil {
			return err
		}
		if len(s.sniff) < want {
			continue
		}
		size, sniffed := mysqlwire.ParseHeader(s.sniff).Len, s.sniff
		switch {
		case sniffed[mysqlwire.HeaderLen] == 0:
			s.state = storedFrames
		case size < 8:
			s.state = storedPlain
		case len(sniffed) < sniffLen:
		case sniffed[storedHeaderLen] == 0x78 && binary.BigEndian.Uint16(sniffed[storedHeaderLen:])%31 == 0:
			s.state = storedFrames
		default:
			s.state = storedPlain
		}
	}
	return nil
}

// header reads a frame's header.
func (s *stored) header() error {
	for s.headLen < storedHeaderLen {
		n, err := s.source(s.head[s.headLen:])
		s.headLen += n
		if err != nil {
			if errors.Is(err, io.EOF) && s.headLen > 0 {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	s.headLen = 0
	s.left = int(s.head[0]) | int(s.head[1])<<8 | int(s.head[2])<<16
	s.inflated = int(s.head[4]) | int(s.head[5])<<8 | int(s.head[6])<<16
	s.seq.Store(uint32(s.head[3]) + 1)
	if s.left == 0 && s.inflated > 0 {
		return errFrame
	}
	return nil
}

// inflate reads the rest of a compressed frame and inflates it.
func (s *stored) inflate() error {
	for s.left > 0 {
		at := len(s.deflated)
		s.deflated = append(s.deflated, make([]byte, min(s.left, defaultBuffer))...) // in steps: the announced length is not trusted
		n, err := s.source(s.deflated[at:])
		s.deflated = s.deflated[:at+n]
		s.left -= n
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	z, err := zlib.NewReader(bytes.NewReader(s.deflated))
	if err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	b, err := io.ReadAll(io.LimitReader(z, int64(s.inflated)+1))
	if err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	if len(b) != s.inflated {
		return fmt.Errorf("%w: %d bytes, want %d", errFrame, len(b), s.inflated)
	}
	s.plain.Reset(b)
	s.deflated, s.inflated = nil, 0
	return nil
}

func (s *stored) Write(b []byte) (int, error) {
	if s.state != storedFrames { // before the first command: the end of the login, if the gateway itself responds to it
		return s.Conn.Write(b)
	}
	s.out = s.out[:0]
	for rest := b; len(rest) > 0; {
		if s.packetLeft == 0 {
			n := copy(s.packet[s.packetLen:], rest)
			s.packetLen, rest = s.packetLen+n, rest[n:]
			if s.packetLen < mysqlwire.HeaderLen {
				break
			}
			s.packetLen, s.packetLeft = 0, mysqlwire.HeaderLen+mysqlwire.ParseHeader(s.packet[:]).Len
			s.send(s.packet[:])
			continue
		}
		n := min(len(rest), s.packetLeft)
		s.send(rest[:n])
		rest = rest[n:]
	}
	if _, err := s.Conn.Write(s.out); err != nil {
		return 0, err
	}
	if cap(s.out) > maxKeptOut {
		s.out = nil
	}
	return len(b), nil
}

// maxKeptOut bounds the frame buffer kept between two writes, in bytes.
const maxKeptOut = 128 << 10

// send appends bytes of the current packet to its frame, or to the next frame if the packet exceeds one.
func (s *stored) send(b []byte) {
	for len(b) > 0 {
		if s.frameLeft == 0 {
			n := min(s.packetLeft, mysqlwire.MaxPayload)
			s.frameLeft = n
			s.out = append(s.out, byte(n), byte(n>>8), byte(n>>16), byte(s.seq.Add(1)-1), 0, 0, 0)
		}
		n := min(len(b), s.frameLeft)
		s.out = append(s.out, b[:n]...)
		b = b[n:]
		s.frameLeft, s.packetLeft = s.frameLeft-n, s.packetLeft-n
	}
}
