package rows

import (
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"time"

	querypb "vitess.io/vitess/go/vt/proto/query"
)

// A Value is a column of a row; nil is NULL.
type Value []byte

// A Conn reads packets.
type Conn struct {
	r        io.Reader
	sequence uint8
}

// NewConn returns a Conn that reads from r, whose next packet has the given sequence number.
func NewConn(r io.Reader, sequence uint8) *Conn { return &Conn{r: r, sequence: sequence} }

func (c *Conn) readHeader() (int, error) {
	var header [4]byte
	if _, err := io.ReadFull(c.r, header[:]); err != nil {
		if strings.HasSuffix(err.Error(), "read: connection reset by peer") {
			return 0, io.EOF
		}
		return 0, err
	}
	if header[3] != c.sequence {
		return 0, fmt.Errorf("invalid sequence, expected %v got %v", c.sequence, header[3])
	}
	c.sequence++
	return int(uint32(header[0]) | uint32(header[1])<<8 | uint32(header[2])<<16), nil
}

// ReadPacket reads the next packet.
func (c *Conn) ReadPacket() ([]byte, error) {
	n, err := c.readHeader()
	if err != nil {
		return nil, err
	}
	data := make([]byte, n)
	_, err = io.ReadFull(c.r, data)
	return data, err
}

// ParseRow parses the payload of a row packet. The values are views of it.
func ParseRow(data []byte, columns int) ([]Value, error) {
	row := make([]Value, columns)
	pos := 0
	for i := range row {
		if pos >= len(data) {
			return nil, fmt.Errorf("row ends at column %d", i)
		}
		if data[pos] == 0xFB {
			pos++
			continue
		}
		size, n := length(data[pos:])
		pos += n
		if n == 0 || size > len(data)-pos {
			return nil, fmt.Errorf("row ends at column %d", i)
		}
		row[i] = Value(data[pos : pos+size])
		pos += size
	}
	return row, nil
}

// length decodes a length-encoded integer and returns its value and its length.
func length(b []byte) (v, n int) {
	width := 0
	switch b[0] {
	case 0xFC:
		width = 2
	case 0xFD:
		width = 3
	case 0xFE:
		width = 8
	default:
		return int(b[0]), 1
	}
	if len(b) < 1+width {
		return 0, 0
	}
	for i := range width {
		v |= int(b[1+i]) << (8 * i)
	}
	return v, 1 + width
}

// ToMessage converts a row to a message.
func ToMessage(row []Value) *querypb.Row {
	total := 0
	for _, v := range row {
		total += len(v)
	}
	m := &querypb.Row{Lengths: make([]int64, 0, len(row)), Values: make([]byte, 0, total)}
	for _, v := range row {
		if v == nil {
			m.Lengths = append(m.Lengths, -1)
			continue
		}
		m.Lengths = append(m.Lengths, int64(len(v)))
		m.Values = append(m.Values, v...)
	}
	return m
}

// FromMessage converts a message to a row. The values are views of it.
func FromMessage(m *querypb.Row) ([]Value, error) {
	row := make([]Value, len(m.Lengths))
	pos := int64(0)
	for i, n := range m.Lengths {
		if n < 0 {
			continue
		}
		if pos+n > int64(len(m.Values)) {
			return nil, fmt.Errorf("row ends at column %d", i)
		}
		row[i] = Value(m.Values[pos : pos+n])
		pos += n
	}
	return row, nil
}

// A Throttle calls Ask at most once per interval.
type Throttle struct {
	Interval time.Duration
	Ask      func() bool
	last     time.Time
}

// OK reports whether work may continue.
func (t *Throttle) OK() bool {
	if time.Since(t.last) < t.Interval {
		return true
	}
	if !t.Ask() {
		return false
	}
	t.last = time.Now()
	return true
}

// A Plan selects one shard of a table's rows, by a column's CRC-32, and projects their columns.
type Plan struct {
	Column, Index, Count int // Index from 1
	Output               []int
}

// Filter returns the projected row, or false if the row is not in the shard.
func (p *Plan) Filter(row []Value) ([]Value, bool) {
	if crc32.ChecksumIEEE(row[p.Column])%uint32(p.Count) != uint32(p.Index-1) {
		return nil, false
	}
	result := make([]Value, len(p.Output))
	for i, c := range p.Output {
		result[i] = row[c]
	}
	return result, true
}

// AppendLoad appends a row in the format of LOAD DATA.
func AppendLoad(dst []byte, row []Value) []byte {
	for i, v := range row {
		if i > 0 {
			dst = append(dst, '\t')
		}
		if v == nil {
			dst = append(dst, `\N`...)
		}
		for _, c := range v {
			switch c {
			case '\t':
				dst = append(dst, `\t`...)
			case '\n':
				dst = append(dst, `\n`...)
			case '\\':
				dst = append(dst, `\\`...)
			default:
				dst = append(dst, c)
			}
		}
	}
	return append(dst, '\n')
}
