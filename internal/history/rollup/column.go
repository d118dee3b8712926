package rollup

import (
	"encoding/binary"

	"github.com/taredb/tare/internal/history/stmtstats"
)

// A ColumnReader reads a column of a file sequentially, by row or by byte, through a window. Rows before the
// window can be read too, at the cost of another read.
type ColumnReader struct {
	file   *File
	column int
	width  int   // bytes of a value, of a numeric column
	window int64 // bytes per read: whole pages
	from   int64 // offset of b in the column
	b      []byte
}

// RemoteWindow is the number of bytes per read of a file in the bucket, where a request costs more than the
// bytes.
const RemoteWindow = 1 << 20

// little returns the window for reading a few rows.
func (f *File) little() int64 {
	if f.Remote {
		return RemoteWindow
	}
	return PageBytes
}

// IsZero reports whether all values of a numeric column are 0.
func (f *File) IsZero(column int) bool { return f.columns[column].width == 0 }

// Column returns a reader of a column of bytes.
func (f *File) Column(column int, window int64) ColumnReader {
	return ColumnReader{file: f, column: column, window: window}
}

// Numbers returns a reader of a numeric column.
func (f *File) Numbers(column int, window int64) (ColumnReader, error) {
	r := f.Column(column, window)
	r.width = f.columns[column].width
	switch r.width {
	case 0, 1, 2, 4, 8:
		return r, nil
	}
	return r, FormatErrorf("column %d is %d bytes wide", column, r.width)
}

// reset sets r to another column, and reuses its memory.
func (r *ColumnReader) reset(to ColumnReader) {
	to.b = r.b[:0]
	*r = to
}

// Bytes returns n bytes at an offset, valid until the next call.
func (r *ColumnReader) Bytes(at, n int64) ([]byte, error) {
	if i := at - r.from; i >= 0 && n >= 0 && n <= int64(len(r.b))-i {
		return r.b[i:][:n:n], nil
	}
	return r.load(at, n)
}

// load moves the window.
func (r *ColumnReader) load(at, n int64) ([]byte, error) {
	bytes := r.file.columns[r.column].bytes
	if at < 0 || n < 0 || at > bytes || n > bytes-at {
		return nil, FormatErrorf("column %d has no bytes %d to %d", r.column, at, at+n)
	}
	from := at / PageBytes * PageBytes
	end := min(from+r.window, bytes)
	if end < at+n {
		end = min((at+n+PageBytes-1)/PageBytes*PageBytes, bytes)
	}
	b, err := r.file.part(r.column, from, end-from, r.b)
	if err != nil {
		r.b = r.b[:0]
		return nil, err
	}
	r.from, r.b = from, b
	return b[at-from:][:n:n], nil
}

// Number returns the value of a row.
func (r *ColumnReader) Number(row int) (uint64, error) {
	if r.width == 0 {
		return 0, nil
	}
	b, err := r.Bytes(int64(row)*int64(r.width), int64(r.width))
	if err != nil {
		return 0, err
	}
	switch len(b) {
	case 1:
		return uint64(b[0]), nil
	case 2:
		return uint64(binary.LittleEndian.Uint16(b)), nil
	case 4:
		return uint64(binary.LittleEndian.Uint32(b)), nil
	}
	return binary.LittleEndian.Uint64(b), nil
}

// A SpreadReader reads the encoded histograms of rows.
type SpreadReader struct {
	ends, spreads ColumnReader
	next          int // the row whose spread starts at from
	from          int64
}

// Spreads returns a reader of the encoded histograms.
func (f *File) Spreads(window int64) (SpreadReader, error) {
	ends, err := f.Numbers(colSpreadEnds, window)
	return SpreadReader{ends: ends, spreads: f.Column(colSpreads, window)}, err
}

// reset sets s to another file, and reuses its memory.
func (s *SpreadReader) reset(to SpreadReader) {
	ends, spreads := s.ends, s.spreads
	ends.reset(to.ends)
	spreads.reset(to.spreads)
	*s = SpreadReader{ends: ends, spreads: spreads}
}

// Spread returns the encoded histogram of a row, valid until the next call.
func (s *SpreadReader) Spread(row int) ([]byte, error) {
	from := s.from
	if row != s.next {
		from = 0
		if row > 0 {
			end, err := s.ends.Number(row - 1)
			if err != nil {
				return nil, err
			}
			from = int64(end)
		}
	}
	n, err := s.ends.Number(row)
	if err != nil {
		return nil, err
	}
	end := int64(n)
	b, err := s.spreads.Bytes(from, end-from)
	s.next, s.from = row+1, end
	return b, err
}

// A KeyReader reads the Keys of rows.
type KeyReader struct {
	names   []string
	digests ColumnReader
	numbers [3]ColumnReader
}

// Keys returns a reader of the Keys.
func (f *File) Keys(window int64) (*KeyReader, error) {
	n := &KeyReader{digests: f.Column(ColDigests, window)}
	b, err := f.Whole(colNames, nil)
	if err != nil {
		return nil, err
	}
	for len(b) > 0 {
		size, width := binary.Uvarint(b)
		if width <= 0 || size > uint64(len(b)-width) {
			return nil, FormatErrorf("its names are cut off")
		}
		n.names = append(n.names, string(b[width:][:size]))
		b = b[width+int(size):]
	}
	for i, c := range [...]int{colSchemas, colUsers, colBackends} {
		if n.numbers[i], err = f.Numbers(c, window); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// Key returns the Key of a row.
func (n *KeyReader) Key(row int) (k stmtstats.Key, err error) {
	b, err := n.digests.Bytes(16*int64(row), 16)
	if err != nil {
		return k, err
	}
	k.Digest = [16]byte(b)
	for i, name := range [...]*string{&k.Schema, &k.User, &k.Backend} {
		number, err := n.numbers[i].Number(row)
		if err != nil {
			return k, err
		}
		if number >= uint64(len(n.names)) {
			return k, FormatErrorf("name %d of %d", number, len(n.names))
		}
		*name = n.names[number]
	}
	return k, nil
}
