package mysqlwire

import "errors"

const (
	// HeaderLen is the size in bytes of the header before each packet's payload.
	HeaderLen = 4

	// MaxPayload is the longest payload of one packet in bytes. A payload of exactly
	// this length means that another packet of the same message follows, which may be
	// empty.
	MaxPayload = 1<<24 - 1
)

// ErrShortPacket reports that a payload ended before the field to be read.
var ErrShortPacket = errors.New("mysql packet ends early")

// A Header precedes each packet's payload: the payload's length in 3 bytes, little-endian,
// and the sequence number, which starts at 0 with each command and wraps at 256.
type Header struct {
	Len int
	Seq uint8
}

// ParseHeader reads the header at the start of b, which must have at least HeaderLen bytes.
// It does not allocate.
func ParseHeader(b []byte) Header {
	_ = b[3]
	return Header{Len: int(b[0]) | int(b[1])<<8 | int(b[2])<<16, Seq: b[3]}
}

// AppendTo appends the 4 bytes of h to dst. It does not allocate when dst has room.
func (h Header) AppendTo(dst []byte) []byte {
	return append(dst, byte(h.Len), byte(h.Len>>8), byte(h.Len>>16), h.Seq)
}

// AppendPacket appends payload to dst as one or more packets, the first of them with
// sequence number seq, and returns the sequence number that comes next. A payload whose
// length is a multiple of MaxPayload ends with an empty packet.
// It does not allocate when dst has room.
func AppendPacket(dst, payload []byte, seq uint8) ([]byte, uint8) {
	for {
		n := min(len(payload), MaxPayload)
		dst = Header{Len: n, Seq: seq}.AppendTo(dst)
		dst = append(dst, payload[:n]...)
		payload = payload[n:]
		seq++
		if n < MaxPayload {
			return dst, seq
		}
	}
}

// OpenPacket appends room for a header to dst. The caller appends the payload and then
// calls ClosePacket with the length that dst had before OpenPacket. Payloads of
// MaxPayload bytes or more go through AppendPacket instead.
func OpenPacket(dst []byte) []byte { return append(dst, 0, 0, 0, 0) }

// ClosePacket fills in the header at dst[at:] of a packet started by OpenPacket.
func ClosePacket(dst []byte, at int, seq uint8) []byte {
	n := len(dst) - at - HeaderLen
	if n >= MaxPayload {
		panic("BUG: ClosePacket: payload needs more than one packet")
	}
	Header{Len: n, Seq: seq}.AppendTo(dst[:at])
	return dst
}

// The first bytes of payloads from the server, which identify their kind. Most have a
// second meaning where rows are expected; the type of the packet documents how to
// distinguish the two.
const (
	MarkOK          = 0x00 // OK; a binary row; the response to PREPARE
	MarkAuthMore    = 0x01 // more authentication data
	MarkNextFactor  = 0x02 // the next factor of multi-factor authentication
	MarkLocalInfile = 0xFB // LOCAL INFILE request; NULL at the start of a text row
	MarkEOF         = 0xFE // EOF; OK after rows; during login: authentication switch
	MarkErr         = 0xFF // ERR; MariaDB's progress report
)
