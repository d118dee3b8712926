package rowstream

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// ErrLoadText means that a text is not in the format of AppendLoad.
var ErrLoadText = errors.New("the text is not in the format of LOAD DATA")

// ParseLoad is the reverse of AppendLoad: it appends the complete rows at the start of text to b until the batch has limit bytes or
// more, and returns the number of bytes parsed. It accepts the escapes of AppendLoad alone. It does not allocate if the batch has enough
// capacity.
func ParseLoad(b *Batch, text []byte, limit int) (used int, err error) {
	for len(b.Bytes) < limit {
		end := bytes.IndexByte(text[used:], '\n')
		if end < 0 {
			return used, nil
		}
		if err := b.appendLoadLine(text[used : used+end]); err != nil {
			return used, err
		}
		used += end + 1
	}
	return used, nil
}

// appendLoadLine appends a row in the format of AppendLoad, without its newline.
func (b *Batch) appendLoadLine(line []byte) error {
	start := len(b.Bytes)
	for i := range b.Columns {
		value, last := line, i == b.Columns-1
		tab := bytes.IndexByte(line, '\t')
		if last != (tab < 0) {
			b.Bytes = b.Bytes[:start]
			return fmt.Errorf("%w: a row has %d values in place of %d", ErrLoadText, bytes.Count(line, []byte{'\t'})+i+1, b.Columns)
		}
		if !last {
			value, line = line[:tab], line[tab+1:]
		}
		size, ok := loadValueSize(value)
		switch {
		case ok:
			b.Bytes = slices.Grow(b.Bytes, 9+size) // once for a wide value, which is appended in pieces
			b.Bytes = appendLoadText(mysqlwire.AppendLenencInt(b.Bytes, uint64(size)), value)
		case len(value) == 2 && value[0] == '\\' && value[1] == 'N':
			b.Bytes = mysqlwire.AppendTextNull(b.Bytes)
		default:
			b.Bytes = b.Bytes[:start]
			return fmt.Errorf("%w: a value has an unknown escape", ErrLoadText)
		}
	}
	b.last = start
	b.Rows++
	return nil
}

// loadValueSize returns the number of bytes of a value without its escapes; false if one of them is unknown.
func loadValueSize(v []byte) (size int, ok bool) {
	for {
		i := bytes.IndexByte(v, '\\')
		if i < 0 {
			return size + len(v), true
		}
		if i+1 == len(v) || v[i+1] != 't' && v[i+1] != 'n' && v[i+1] != '\\' {
			return 0, false
		}
		size += i + 1
		v = v[i+2:]
	}
}

// appendLoadText appends a value without its escapes, which loadValueSize has checked.
func appendLoadText(dst, v []byte) []byte {
	for {
		i := bytes.IndexByte(v, '\\')
		if i < 0 {
			return append(dst, v...)
		}
		c := v[i+1]
		switch c {
		case 't':
			c = '\t'
		case 'n':
			c = '\n'
		}
		dst = append(append(dst, v[:i]...), c)
		v = v[i+2:]
	}
}
