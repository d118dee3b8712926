package rowstream

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// LoadFormat is the clause of LOAD DATA for the format of AppendLoad.
const LoadFormat = `CHARACTER SET binary FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n'`

// AppendLoad appends the rows of b in the format of LoadFormat: values separated by tabs, rows ended by
// newlines, NULL as \N. It does not allocate if dst has enough capacity.
//
// Specification: MySQL "LOAD DATA Statement", Field and Line Handling.
func AppendLoad(dst []byte, b *Batch) ([]byte, error) {
	if b.Columns <= 0 {
		return dst, b.Check()
	}
	at := 0
	for range b.Rows {
		for i := range b.Columns {
			v, n := mysqlwire.TextValue(b.Bytes[at:])
			if n == 0 {
				return dst, &batchError{Offset: at, Column: i, Len: len(b.Bytes)}
			}
			at += n
			if v == nil {
				dst = append(dst, `\N`...)
			} else {
				dst = appendLoadValue(dst, v)
			}
			dst = append(dst, '\t')
		}
		dst[len(dst)-1] = '\n'
	}
	return dst, nil
}

// StreamLoad is AppendLoad for a batch of wide rows: it passes the text to write in parts of about the
// capacity of dst, and returns dst's memory.
func StreamLoad(dst []byte, b *Batch, write func([]byte) error) ([]byte, error) {
	const piece = 64 << 10
	flush := func(least int) (err error) {
		if len(dst) >= least {
			err, dst = write(dst), dst[:0]
		}
		return err
	}
	at := 0
	for range b.Rows {
		for i := range b.Columns {
			v, n := mysqlwire.TextValue(b.Bytes[at:])
			if n == 0 {
				return dst[:0], &batchError{Offset: at, Column: i, Len: len(b.Bytes)}
			}
			at += n
			if v == nil {
				dst = append(dst, `\N`...)
			}
			for len(v) > 0 {
				k := min(len(v), piece)
				dst, v = appendLoadValue(dst, v[:k]), v[k:]
				if err := flush(piece); err != nil {
					return dst, err
				}
			}
			if end := byte('\t'); i < b.Columns-1 {
				dst = append(dst, end)
			} else {
				dst = append(dst, '\n')
			}
		}
	}
	return dst, flush(1)
}

// appendLoadValue appends a value with tab, newline and backslash escaped.
func appendLoadValue(dst, v []byte) []byte {
	for {
		i := loadSpecial(v)
		if i < 0 {
			return append(dst, v...)
		}
		dst = append(dst, v[:i]...)
		dst = append(dst, '\\')
		switch v[i] {
		case '\t':
			dst = append(dst, 't')
		case '\n':
			dst = append(dst, 'n')
		default:
			dst = append(dst, '\\')
		}
		v = v[i+1:]
	}
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// loadSpecial returns the index of the first tab, newline or backslash, or -1. It examines eight bytes at a
// time.
func loadSpecial(v []byte) int {
	i := 0
	for ; i+8 <= len(v); i += 8 {
		w := binary.LittleEndian.Uint64(v[i:])
		if m := zeroBytes(w^'\t'*ones) | zeroBytes(w^'\n'*ones) | zeroBytes(w^'\\'*ones); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(v); i++ {
		if c := v[i]; c == '\t' || c == '\n' || c == '\\' {
			return i
		}
	}
	return -1
}

// zeroBytes returns a word with the high bit of the lowest zero byte of w set, and no bit below it.
func zeroBytes(w uint64) uint64 { return (w - ones) & ^w & highs }

// AppendInsert appends one INSERT or REPLACE with as many rows as fit: head, which ends in VALUES, then rows
// of b from offset at, up to limit bytes or the batch's end. It returns the statement, the offset of the next
// row, and the number of rows: 0 if the first does not fit. It does not allocate if dst has enough capacity.
//
// values wraps the value of each column, such as CAST(? AS SIGNED); a zero entry leaves the value bare. It
// may be nil.
func AppendInsert(dst []byte, head string, b *Batch, at, limit int, values []Wrap) (_ []byte, next, rows int, err error) {
	start := len(dst)
	dst = append(dst, head...)
	for at < len(b.Bytes) {
		mark, from := len(dst), at
		dst = append(dst, "("...)
		for i := range b.Columns {
			v, n := mysqlwire.TextValue(b.Bytes[at:])
			if n == 0 {
				return dst[:start], from, 0, &batchError{Offset: at, Column: i, Len: len(b.Bytes)}
			}
			at += n
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendWrapped(dst, v, values, i)
		}
		dst = append(dst, "),"...)
		if len(dst)-1-start > limit { // remove the last comma
			dst, at = dst[:mark], from
			break
		}
		rows++
	}
	if rows == 0 {
		return dst[:start], at, 0, nil
	}
	return bytes.TrimSuffix(dst, []byte{','}), at, rows, nil
}

// A Wrap is SQL around a value.
type Wrap struct{ Before, After string }

func appendWrapped(dst, v []byte, values []Wrap, i int) []byte {
	var w Wrap
	if i < len(values) {
		w = values[i]
	}
	dst = append(dst, w.Before...)
	if v == nil {
		dst = append(dst, "NULL"...)
	} else {
		dst = session.AppendLiteral(dst, v)
	}
	return append(dst, w.After...)
}

// LiteralSize returns the maximum number of bytes of a row's values in a statement.
func LiteralSize(row mysqlwire.TextRow) int {
	size := 64 * len(row)
	for _, v := range row {
		if size += len(v); !session.IsPlain(v) {
			size += len(v)
		}
	}
	return size
}
