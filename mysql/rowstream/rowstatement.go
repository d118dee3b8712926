package rowstream

import (
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// streamPiece is the number of bytes of a value after which a streamed statement is written.
const streamPiece = 64 << 10

// RowSize returns the number of bytes of a row in a REPLACE statement.
func (s *RowSQL) RowSize(row mysqlwire.TextRow) int { return valuesSize(row, s.wraps) }

// StreamRow is AppendRow for the first row of a statement, if it is wide: it passes the text to write in pieces, after
// the bytes of dst, and returns dst's memory.
func (s *RowSQL) StreamRow(dst []byte, row mysqlwire.TextRow, write func([]byte) error) ([]byte, error) {
	return streamValues(dst, row, s.wraps, write)
}

// InsertSize returns the number of bytes of a statement of AppendInsert for the only row of a batch.
func InsertSize(head string, row mysqlwire.TextRow, values []Wrap) int {
	return len(head) + valuesSize(row, values)
}

// StreamInsert is AppendInsert for the only row of a batch, if it is wide: it passes the text to write in pieces, and
// returns dst's memory.
func StreamInsert(dst []byte, head string, row mysqlwire.TextRow, values []Wrap, write func([]byte) error) ([]byte, error) {
	return streamValues(append(dst, head...), row, values, write)
}

// valuesSize returns the number of bytes of streamValues.
func valuesSize(row mysqlwire.TextRow, values []Wrap) int {
	size := len("(") + len(row) // a comma or the parenthesis after each value
	for i, v := range row {
		if i < len(values) {
			size += len(values[i].Before) + len(values[i].After)
		}
		switch {
		case v == nil:
			size += len("NULL")
		case session.IsPlain(v):
			size += len("_binary''") + len(v)
		default:
			size += len("x''") + 2*len(v)
		}
	}
	return size
}

// streamValues passes the values of a row in parentheses to write, in pieces after the bytes of dst.
func streamValues(dst []byte, row mysqlwire.TextRow, values []Wrap, write func([]byte) error) ([]byte, error) {
	for i, v := range row {
		dst = append(dst, "(,"[min(i, 1)])
		if len(v) <= streamPiece {
			dst = appendWrapped(dst, v, values, i)
			continue
		}
		var w Wrap
		if i < len(values) {
			w = values[i]
		}
		dst = append(dst, w.Before...)
		if plain := session.IsPlain(v); plain {
			dst = append(dst, "_binary'"...)
			for len(v) > 0 {
				n := min(len(v), streamPiece)
				dst = append(dst, v[:n]...)
				v = v[n:]
				if err := write(dst); err != nil {
					return dst[:0], err
				}
				dst = dst[:0]
			}
		} else {
			dst = append(dst, "x'"...)
			for len(v) > 0 {
				n := min(len(v), streamPiece/2)
				dst = session.AppendHex(dst, v[:n])
				v = v[n:]
				if err := write(dst); err != nil {
					return dst[:0], err
				}
				dst = dst[:0]
			}
		}
		dst = append(append(dst, '\''), w.After...)
	}
	dst = append(dst, ')')
	return dst[:0], write(dst)
}
