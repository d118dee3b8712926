package rollup

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/internal/history/stmtstats"
)

// A File reads a file's columns on demand and verifies them. It is safe for concurrent use; its readers are not.
type File struct {
	Rollup  // without rows
	at      io.ReaderAt
	closer  io.Closer // nil: Close does nothing
	size    int64
	version int
	Remote  bool // each read is a request
	NumRows int  // number of rows
	texts   int

	reads, bytes atomic.Int64 // of at

	names   []string            // of the columns in their order in the file
	counts  []stmtstats.Counter // of the counts in the file's totals; NumCounters: unknown
	columns [numColumns]column
}

type column struct {
	offset, bytes int64
	width         int
	sums          []uint32 // of its pages
}

// Open reads a file's header and footer.
func Open(at io.ReaderAt, size int64) (*File, error) {
	if size < headerBytes+tailBytes || size > maxFileBytes {
		return nil, FormatErrorf("%d bytes long", size)
	}
	var head [headerBytes]byte
	var tail [tailBytes]byte
	f := &File{at: at, size: size}
	if err := f.readFull(head[:], 0); err != nil {
		return nil, err
	}
	if err := f.readFull(tail[:], size-tailBytes); err != nil {
		return nil, err
	}
	if err := f.header(head[:]); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	length := int64(le.Uint32(tail[4:]))
	if string(tail[8:]) != magic || length > size-headerBytes-tailBytes {
		return nil, FormatErrorf("it does not end as one: it may be cut off")
	}
	footer := make([]byte, length)
	if err := f.readFull(footer, size-tailBytes-length); err != nil {
		return nil, err
	}
	if checksum(footer) != le.Uint32(tail[:]) {
		return nil, FormatErrorf("the checksum of its footer does not match")
	}
	return f, f.footer(footer, size-tailBytes-length)
}

func (f *File) readFull(b []byte, offset int64) error {
	n, err := f.at.ReadAt(b, offset)
	f.reads.Add(1)
	f.bytes.Add(int64(n))
	if n == len(b) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return FormatErrorf("it ends at %d", offset+int64(n))
	}
	return err
}

// Reads returns the number of reads so far, of a remote file requests, and their bytes.
func (f *File) Reads() (reads, bytes int64) { return f.reads.Load(), f.bytes.Load() }

// Close closes a file opened by a Store; it does nothing for others.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// maxStart is the last second at which a file may start, so that its end does not overflow.
const maxStart = math.MaxInt64/1_000_000_000 - 1_000_000

func (f *File) header(b []byte) error {
	le := binary.LittleEndian
	const end = headerBytes - 4
	switch {
	case string(b[:8]) != magic:
		return FormatErrorf("it does not begin as one")
	case le.Uint32(b[8:]) < 2 || le.Uint32(b[8:]) > formatVersion:
		return FormatErrorf("it is of version %d: another version of tare may read it", le.Uint32(b[8:]))
	case le.Uint32(b[end:]) != checksum(b[:end]):
		return FormatErrorf("the checksum of its header does not match")
	}
	f.version = int(le.Uint32(b[8:]))
	f.names = columnsOfVersion2()
	if n := int(le.Uint32(b[12:])); f.version > 2 && n <= maxColumns {
		f.names = make([]string, n)
	} else if n != len(f.names) {
		return FormatErrorf("%d columns", n)
	}
	rows, texts := le.Uint32(b[16:]), le.Uint32(b[20:])
	if rows > MaxRows || texts > rows {
		return FormatErrorf("%d rows, %d texts", rows, texts)
	}
	f.NumRows, f.texts = int(rows), int(texts)
	start := int64(le.Uint64(b[24:]))
	f.Span = time.Duration(le.Uint32(b[32:])) * time.Second
	f.Last = int64(le.Uint64(b[36:]))
	if start < 0 || start > maxStart || f.Span != Hour && f.Span != Day || start%int64(f.Span/1e9) != 0 {
		return FormatErrorf("it begins at %d and covers %v", start, f.Span)
	}
	f.Start = time.Unix(start, 0).UTC()
	return nil
}

// maxColumns exceeds the number of columns of any file written by Tare.
const maxColumns = 256

// footer reads the names and offsets of the columns, which end at the footer.
func (f *File) footer(b []byte, end int64) error {
	le := binary.LittleEndian
	offset := int64(headerBytes)
	left := make(map[string]int, numColumns) // the columns not found yet
	for i := range f.columns {
		left[columnName(i)] = i
	}
	for n := range f.names {
		if f.version > 2 {
			if len(b) == 0 || len(b) <= int(b[0]) {
				return FormatErrorf("its footer is too short")
			}
			f.names[n], b = string(b[1:][:b[0]]), b[1+int(b[0]):]
		}
		name := f.names[n]
		if slices.Contains(f.names[:n], name) {
			return FormatErrorf("two columns %q", name)
		}
		if len(b) < 12 {
			return FormatErrorf("its footer is too short")
		}
		i, known := left[name]
		delete(left, name)
		c := new(column)
		if known {
			c = &f.columns[i]
		}
		if strings.HasPrefix(name, countPrefix) {
			counter := stmtstats.Counter(stmtstats.NumCounters)
			if known {
				counter = stmtstats.Counter(i - colCounts)
			}
			f.counts = append(f.counts, counter)
		}
		c.offset, c.width, c.bytes = offset, int(le.Uint32(b)), int64(le.Uint64(b[4:]))
		if b = b[12:]; c.bytes < 0 || c.bytes > end-offset {
			return FormatErrorf("column %q has %d bytes", name, c.bytes)
		}
		offset += c.bytes
		pages := int((c.bytes + PageBytes - 1) / PageBytes)
		if len(b) < 4*pages {
			return FormatErrorf("its footer is too short")
		}
		c.sums = make([]uint32, pages)
		for p := range c.sums {
			c.sums[p] = le.Uint32(b[4*p:])
		}
		b = b[4*pages:]
		if want := f.columnBytes(i); known && want >= 0 && c.bytes != want {
			return FormatErrorf("column %q has %d bytes for %d rows", name, c.bytes, f.NumRows)
		}
	}
	for name := range left {
		if !strings.HasPrefix(name, countPrefix) {
			return FormatErrorf("no column %q", name)
		}
	}
	if len(b) != 0 || offset != end {
		return FormatErrorf("its columns end at %d, not at %d", offset, end)
	}
	return nil
}

// columnBytes returns the required length of a column; -1 if any length is valid.
func (f *File) columnBytes(column int) int64 {
	width := int64(f.columns[column].width)
	switch column {
	case ColPrints, ColDigests:
		return 16 * int64(f.NumRows)
	case colLabels, colTotals, colOwed, colNames, colTextPages, colSpreads:
		return -1
	case colTextPlaces:
		return width * int64(f.texts)
	case colTextEnds:
		if width == 0 {
			return 0
		}
		return -1
	}
	return width * int64(f.NumRows)
}

// part returns n bytes of a column, in dst's memory if it has capacity. It reads whole pages and verifies
// them.
func (f *File) part(column int, from, n int64, dst []byte) ([]byte, error) {
	c := &f.columns[column]
	if from < 0 || n < 0 || from > c.bytes || n > c.bytes-from {
		return nil, FormatErrorf("column %d has no bytes %d to %d", column, from, from+n)
	}
	if n == 0 {
		return dst[:0], nil
	}
	first := from / PageBytes
	end := min((from+n+PageBytes-1)/PageBytes*PageBytes, c.bytes)
	begin := first * PageBytes
	if int64(cap(dst)) < end-begin {
		dst = buffer(end - begin)
	}
	dst = dst[:end-begin]
	if err := f.readFull(dst, c.offset+begin); err != nil {
		return nil, fmt.Errorf("read column %d of a rollup: %w", column, err)
	}
	for at := 0; at < len(dst); at += PageBytes {
		page := int(first) + at/PageBytes
		if checksum(dst[at:min(at+PageBytes, len(dst))]) != c.sums[page] {
			return nil, FormatErrorf("the checksum of page %d of column %d does not match", page, column)
		}
	}
	return dst[from-begin:][:n], nil
}

// Whole returns a whole column, in dst's memory if it has capacity.
func (f *File) Whole(column int, dst []byte) ([]byte, error) {
	return f.part(column, 0, f.columns[column].bytes, dst)
}

// textEnds returns the end of each page of texts.
func (f *File) textEnds() ([]uint64, error) {
	r, err := f.Numbers(colTextEnds, allAtOnce)
	if err != nil || r.width == 0 {
		return nil, err
	}
	bytes := f.columns[colTextEnds].bytes
	if bytes%int64(r.width) != 0 {
		return nil, FormatErrorf("column %d has %d bytes", colTextEnds, bytes)
	}
	ends := make([]uint64, bytes/int64(r.width))
	for i := range ends {
		if ends[i], err = r.Number(i); err != nil {
			return nil, err
		}
	}
	return ends, nil
}

// instance returns the labels of the gateway.
func (f *File) instance() (labels map[string]string, err error) {
	b, err := f.Whole(colLabels, nil)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &labels); err != nil {
		return nil, FormatErrorf("its labels: %v", err)
	}
	return labels, nil
}

// AddTotals adds the sums over all rows.
func (f *File) AddTotals(all *stmtstats.Counts, spread *stmtstats.Histogram) error {
	c, b, err := f.countsOf(colTotals)
	if err != nil {
		return err
	}
	all.Add(&c)
	spread.Nanos += c[stmtstats.Nanos]
	if err := spread.AddSpread(b); err != nil {
		return FormatErrorf("its totals: %v", err)
	}
	return nil
}

// countsOf returns the counts at the start of a column, and the spread that follows.
func (f *File) countsOf(column int) (c stmtstats.Counts, spread []byte, err error) {
	b, err := f.Whole(column, nil)
	if err != nil {
		return c, nil, err
	}
	for _, counter := range f.counts {
		n, width := binary.Uvarint(b)
		if width <= 0 {
			return c, nil, FormatErrorf("its totals are too short")
		}
		if b = b[width:]; int(counter) < len(c) {
			c[counter] = n
		}
	}
	return c, b, nil
}

// Read reads all rows and verifies the whole file.
func (f *File) Read(u *TextDecoder) (*Rollup, error) {
	r := f.Rollup
	var err error
	if r.Labels, err = f.instance(); err != nil {
		return nil, err
	}
	if r.Carry.Counts, r.Carry.Spread, err = f.countsOf(colOwed); err != nil {
		return nil, err
	}
	names, err := f.Keys(allAtOnce)
	if err != nil {
		return nil, err
	}
	texts, err := f.Texts(u, allAtOnce)
	if err != nil {
		return nil, err
	}
	spreads, err := f.Spreads(allAtOnce)
	if err != nil {
		return nil, err
	}
	prints := f.Column(ColPrints, allAtOnce)
	var columns [numColumns]ColumnReader
	for c := range columns {
		if c < colCounts && c != ColFirsts && c != colLasts {
			continue
		}
		if columns[c], err = f.Numbers(c, allAtOnce); err != nil {
			return nil, err
		}
	}
	r.Rows = make([]Row, f.NumRows)
	var sum stmtstats.Counts
	var spread stmtstats.Histogram
	for i := range r.Rows {
		row := &r.Rows[i]
		if err := f.readRow(row, i, &prints, names, texts, &spreads, &columns); err != nil {
			return nil, err
		}
		if i > 0 && r.Rows[i-1].Print.Compare(row.Print) >= 0 {
			return nil, FormatErrorf("rows %d and %d are not in order", i-1, i)
		}
		sum.Add(&row.Counts)
		if err := spread.AddSpread(row.Spread); err != nil {
			return nil, FormatErrorf("row %d: %v", i, err)
		}
	}
	var all stmtstats.Counts
	var totals stmtstats.Histogram
	if err := f.AddTotals(&all, &totals); err != nil {
		return nil, err
	}
	if totals.Nanos = 0; all != sum || totals != spread {
		return nil, FormatErrorf("its totals are not those of its rows")
	}
	return &r, nil
}

// allAtOnce is a window for reading a whole column.
const allAtOnce = maxFileBytes

// maxOffset exceeds the milliseconds of any file's range.
const maxOffset = 1 << 40

// readRow reads one row.
func (f *File) readRow(row *Row, i int, prints *ColumnReader, names *KeyReader, texts *TextReader, spreads *SpreadReader, columns *[numColumns]ColumnReader) error {
	b, err := prints.Bytes(16*int64(i), 16)
	if err != nil {
		return err
	}
	row.Print = Print(b)
	if row.Key, err = names.Key(i); err != nil {
		return err
	}
	if row.Print.IsSum() {
		row.Key = stmtstats.Key{}
	}
	if b, err = texts.Text(i); err != nil {
		return err
	}
	row.Text = string(b)
	for c := range row.Counts {
		if row.Counts[c], err = columns[colCounts+c].Number(i); err != nil {
			return err
		}
	}
	first, err := columns[ColFirsts].Number(i)
	if err != nil {
		return err
	}
	last, err := columns[colLasts].Number(i)
	if err != nil {
		return err
	}
	if first > maxOffset || last > maxOffset {
		return FormatErrorf("row %d has times %d and %d ms after the start", i, first, last)
	}
	if first > 0 {
		row.First = f.Start.UnixMilli() + int64(first) - 1
	}
	row.Last = f.Start.UnixMilli() + int64(last)
	if b, err = spreads.Spread(i); err == nil {
		row.Spread = bytes.Clone(b)
	}
	return err
}
