package binlog

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// A rowsEvent has the rows of an event: views of it, or of the decompressed event.
//
// Specification: MySQL "Rows_event", MariaDB "Rows_event_v1/v2".
type rowsEvent struct {
	kind   ChangeKind
	before []byte // bitmap of the columns in before images; nil for inserts
	after  []byte // bitmap of the columns in after images; nil for deletes
	rows   []byte
}

// splitRows splits the body of a rows event before the part that may be compressed.
func splitRows(body []byte, version int) (id uint64, rest []byte, err error) {
	if len(body) < 8 {
		return 0, nil, errShortEvent
	}
	id, rest = littleEndian(body[:6]), body[8:]
	if version == 1 {
		return id, rest, nil
	}
	if len(rest) < 2 {
		return 0, nil, errShortEvent
	}
	extra := int(binary.LittleEndian.Uint16(rest)) // including its length
	if extra < 2 || extra > len(rest) {
		return 0, nil, errShortEvent
	}
	return id, rest[extra:], nil
}

// errImage means that an image lacks columns.
var errImage = errors.New("the image of a row lacks columns")

// decode parses the columns of the images, for the layout m of the table. All required columns must be in
// them.
func (e *rowsEvent) decode(kind ChangeKind, rest []byte, m *tableMap) error {
	*e = rowsEvent{kind: kind}
	n, k := mysqlwire.LenencInt(rest)
	if k == 0 {
		return errShortEvent
	}
	if n != uint64(len(m.columns)) {
		return fmt.Errorf("rows of %d columns of a table of %d", n, len(m.columns))
	}
	rest = rest[k:]
	size := (len(m.columns) + 7) / 8
	for _, has := range []bool{kind != Insert, kind != Delete} {
		if !has {
			continue
		}
		if len(rest) < size {
			return errShortEvent
		}
		present := rest[:size]
		rest = rest[size:]
		for i := range m.columns {
			if m.columns[i].wanted && present[i/8]>>(i%8)&1 == 0 {
				return errImage
			}
		}
		if kind != Insert && e.before == nil {
			e.before = present
		} else {
			e.after = present
		}
	}
	e.rows = rest
	return nil
}

// image appends the image at the start of e.rows, with the columns in present, as a row, and advances past
// it. Of a before image, it reads only the columns required there. It does not allocate if dst has enough
// capacity, which it grows once for a wide image.
func (e *rowsEvent) image(dst []byte, m *tableMap, present []byte, before bool) ([]byte, error) {
	columns := 0
	for _, b := range present {
		columns += bits.OnesCount8(b)
	}
	size := (columns + 7) / 8
	if len(e.rows) < size {
		return dst, errShortEvent
	}
	nulls, b := e.rows[:size], e.rows[size:]
	if len(b) > rowstream.WideRow {
		dst = slices.Grow(dst, m.room(b, nulls, present, before))
	}
	at := 0 // index among the present columns
	for i := range m.columns {
		if present[i/8]>>(i%8)&1 == 0 {
			continue
		}
		c := &m.columns[i]
		null := nulls[at/8]>>(at%8)&1 == 1
		at++
		skip := !c.wanted || before && !c.before
		if c.wanted && (null || skip) {
			dst = append(dst, 0xFB)
		}
		var n int
		switch {
		case null:
			continue
		case skip:
			n = c.length(b)
		default:
			dst, n = c.appendValue(dst, b)
		}
		if n == 0 {
			return dst, errShortEvent
		}
		b = b[n:]
	}
	if len(b) == len(e.rows) {
		return dst, errShortEvent // an empty image would be read forever
	}
	e.rows = b
	return dst, nil
}

// room returns the approximate size of the row of the image at the start of b: sufficient if its long values
// are bytes.
func (m *tableMap) room(b, nulls, present []byte, before bool) int {
	const short = 32 // a short value, or the length of a long one
	at, long, all := 0, 0, 0
	for i := range m.columns {
		if present[i/8]>>(i%8)&1 == 0 {
			continue
		}
		null := nulls[at/8]>>(at%8)&1 == 1
		at++
		if null {
			continue
		}
		c := &m.columns[i]
		n := c.length(b)
		if n == 0 {
			break // decoding fails
		}
		b = b[n:]
		if all++; !c.wanted || before && !c.before {
			continue
		}
		if long += n; c.form == formJSON { // its text is longer
			long += n / 16
		}
	}
	return long + short*all
}

// An inflater decompresses MariaDB's compressed events, with reused memory.
type inflater struct {
	in  bytes.Reader
	z   io.ReadCloser
	out []byte
}

// maxInflated bounds the bytes of an event: servers write no larger ones.
const maxInflated = 1 << 30

var errInflate = errors.New("its compression is of an unknown kind")

// inflate returns the content of the compressed part of an event, valid until the next call. The part has a
// byte with the size of the length, the length, and a zlib stream.
//
// Specification: MariaDB's sql/log_event.cc, binlog_buf_compress.
func (f *inflater) inflate(b []byte) ([]byte, error) {
	if len(b) < 1 {
		return nil, errShortEvent
	}
	size := int(b[0] & 7)
	if b[0]&0xF0 != 0x80 || size < 1 || size > 4 { // the high bit is set, the algorithm 0
		return nil, errInflate
	}
	if len(b) < 1+size {
		return nil, errShortEvent
	}
	length := bigEndian(b[1 : 1+size])
	if length > maxInflated {
		return nil, fmt.Errorf("an event of %d bytes", length)
	}
	f.in.Reset(b[1+size:])
	if f.z == nil {
		z, err := zlib.NewReader(&f.in)
		if err != nil {
			return nil, err
		}
		f.z = z
	} else if err := f.z.(zlib.Resetter).Reset(&f.in, nil); err != nil {
		return nil, err
	}
	f.out = f.out[:0]
	for uint64(len(f.out)) < length {
		// Memory is allocated as bytes arrive, not by the claimed length.
		if cap(f.out) == len(f.out) {
			f.out = append(f.out, 0)[:len(f.out)]
		}
		n, err := f.z.Read(f.out[len(f.out):min(uint64(cap(f.out)), length)])
		f.out = f.out[:len(f.out)+n]
		if n == 0 && err != nil {
			return nil, fmt.Errorf("decompress %d bytes: %w", length, err)
		}
	}
	return f.out, nil
}
