package history

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"time"

	"github.com/taredb/tare/stmtstats"
)

// A rollupFile reads a file's columns as they are asked for. What it answers was checked. It is for one
// goroutine.
type rollupFile struct {
	rollup  // its rows are not read
	at      io.ReaderAt
	closer  io.Closer // nil: close does nothing
	size    int64
	version int
	remote  bool // each read is a request
	count   int  // of rows
	texts   int

	columns [rollupColumns]rollupColumn
}

type rollupColumn struct {
	offset, bytes int64
	width         int
	sums          []uint32 // of its pages
}

// openRollup reads a file's header and footer.
func openRollup(at io.ReaderAt, size int64) (*rollupFile, error) {
	if size < rollupHeader+rollupTail || size > maxRollupBytes {
		return nil, badRollup("%d bytes long", size)
	}
	var head [rollupHeader]byte
	var tail [rollupTail]byte
	if err := readFull(at, head[:], 0); err != nil {
		return nil, err
	}
	if err := readFull(at, tail[:], size-rollupTail); err != nil {
		return nil, err
	}
	f := &rollupFile{at: at, size: size}
	if err := f.header(head[:]); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	length := int64(le.Uint32(tail[4:]))
	if string(tail[8:]) != rollupMagic || length > size-rollupHeader-rollupTail {
		return nil, badRollup("it does not end as one: it may be cut off")
	}
	footer := make([]byte, length)
	if err := readFull(at, footer, size-rollupTail-length); err != nil {
		return nil, err
	}
	if crc32.Checksum(footer, castagnoli) != le.Uint32(tail[:]) {
		return nil, badRollup("the checksum of its footer does not match")
	}
	return f, f.footer(footer, size-rollupTail-length)
}

func readFull(at io.ReaderAt, b []byte, offset int64) error {
	n, err := at.ReadAt(b, offset)
	if n == len(b) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return badRollup("it ends at %d", offset+int64(n))
	}
	return err
}

func (f *rollupFile) close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// maxStart is the last second at which a file may begin, with room for its span.
const maxStart = math.MaxInt64/1_000_000_000 - 1_000_000

func (f *rollupFile) header(b []byte) error {
	le := binary.LittleEndian
	const end = rollupHeader - 4
	switch {
	case string(b[:8]) != rollupMagic:
		return badRollup("it does not begin as one")
	case le.Uint32(b[8:]) < 1 || le.Uint32(b[8:]) > rollupVersion:
		return badRollup("it is of version %d: a newer tare may read it", le.Uint32(b[8:]))
	case le.Uint32(b[end:]) != crc32.Checksum(b[:end], castagnoli):
		return badRollup("the checksum of its header does not match")
	case int(le.Uint32(b[12:])) != rollupColumns:
		return badRollup("%d columns", le.Uint32(b[12:]))
	}
	f.version = int(le.Uint32(b[8:]))
	rows, texts := le.Uint32(b[16:]), le.Uint32(b[20:])
	if rows > maxRollupRows || texts > rows {
		return badRollup("%d rows, %d texts", rows, texts)
	}
	f.count, f.texts = int(rows), int(texts)
	start := int64(le.Uint64(b[24:]))
	f.span = time.Duration(le.Uint32(b[32:])) * time.Second
	f.last = int64(le.Uint64(b[36:]))
	if start < 0 || start > maxStart || f.span != rollupHour && f.span != rollupDay || start%int64(f.span/1e9) != 0 {
		return badRollup("it begins at %d and covers %v", start, f.span)
	}
	f.start = time.Unix(start, 0).UTC()
	return nil
}

// footer reads where the columns are, which end where the footer begins.
func (f *rollupFile) footer(b []byte, end int64) error {
	le := binary.LittleEndian
	offset := int64(rollupHeader)
	for i := range f.columns {
		if len(b) < 12 {
			return badRollup("its footer is too short")
		}
		c := &f.columns[i]
		c.offset, c.width, c.bytes = offset, int(le.Uint32(b)), int64(le.Uint64(b[4:]))
		if b = b[12:]; c.bytes < 0 || c.bytes > end-offset {
			return badRollup("column %d has %d bytes", i, c.bytes)
		}
		offset += c.bytes
		pages := int((c.bytes + rollupPage - 1) / rollupPage)
		if len(b) < 4*pages {
			return badRollup("its footer is too short")
		}
		c.sums = make([]uint32, pages)
		for p := range c.sums {
			c.sums[p] = le.Uint32(b[4*p:])
		}
		b = b[4*pages:]
		if want := f.columnBytes(i); want >= 0 && c.bytes != want {
			return badRollup("column %d has %d bytes for %d rows", i, c.bytes, f.count)
		}
	}
	if len(b) != 0 || offset != end {
		return badRollup("its columns end at %d, not at %d", offset, end)
	}
	return nil
}

// columnBytes is how long a column has to be; -1 when its length says nothing.
func (f *rollupFile) columnBytes(column int) int64 {
	width := int64(f.columns[column].width)
	switch column {
	case colPrints, colDigests:
		return 16 * int64(f.count)
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
	return width * int64(f.count)
}

// part is n bytes of a column from from on, in dst's memory if it has room. It reads whole pages and checks them.
func (f *rollupFile) part(column int, from, n int64, dst []byte) ([]byte, error) {
	c := &f.columns[column]
	if from < 0 || n < 0 || from > c.bytes || n > c.bytes-from {
		return nil, badRollup("column %d has no bytes %d to %d", column, from, from+n)
	}
	if n == 0 {
		return dst[:0], nil
	}
	first := from / rollupPage
	end := min((from+n+rollupPage-1)/rollupPage*rollupPage, c.bytes)
	begin := first * rollupPage
	if int64(cap(dst)) < end-begin {
		dst = make([]byte, end-begin)
	}
	dst = dst[:end-begin]
	if err := readFull(f.at, dst, c.offset+begin); err != nil {
		return nil, fmt.Errorf("read column %d of a rollup: %w", column, err)
	}
	for at := 0; at < len(dst); at += rollupPage {
		page := int(first) + at/rollupPage
		if crc32.Checksum(dst[at:min(at+rollupPage, len(dst))], castagnoli) != c.sums[page] {
			return nil, badRollup("the checksum of page %d of column %d does not match", page, column)
		}
	}
	return dst[from-begin:][:n], nil
}

// whole is all of a column, in dst's memory if it has room.
func (f *rollupFile) whole(column int, dst []byte) ([]byte, error) {
	return f.part(column, 0, f.columns[column].bytes, dst)
}

// textEnds is where each page of texts ends.
func (f *rollupFile) textEnds() ([]uint64, error) {
	r, err := f.numberReader(colTextEnds, allAtOnce)
	if err != nil || r.width == 0 {
		return nil, err
	}
	bytes := f.columns[colTextEnds].bytes
	if bytes%int64(r.width) != 0 {
		return nil, badRollup("column %d has %d bytes", colTextEnds, bytes)
	}
	ends := make([]uint64, bytes/int64(r.width))
	for i := range ends {
		if ends[i], err = r.number(i); err != nil {
			return nil, err
		}
	}
	return ends, nil
}

// instance are the labels of the gateway that the file is of.
func (f *rollupFile) instance() (labels map[string]string, err error) {
	b, err := f.whole(colLabels, nil)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &labels); err != nil {
		return nil, badRollup("its labels: %v", err)
	}
	return labels, nil
}

// addTotals adds what all rows have counted.
func (f *rollupFile) addTotals(all *counts, spread *stmtstats.Histogram) error {
	c, b, err := f.counts(colTotals)
	if err != nil {
		return err
	}
	all.add(&c)
	spread.Nanos += c.nanos
	return spread.AddSpread(b)
}

// counts are those of a column that begins with them, and the spread that follows.
func (f *rollupFile) counts(column int) (c counts, spread []byte, err error) {
	b, err := f.whole(column, nil)
	if err != nil {
		return c, nil, err
	}
	var v [numCounts]uint64
	for i := range v {
		n, width := binary.Uvarint(b)
		if width <= 0 {
			return c, nil, badRollup("its totals are too short")
		}
		v[i], b = n, b[width:]
	}
	spread, err = f.turn(nil, b, new(stmtstats.Histogram))
	return countsFrom(&v), spread, err
}

// read reads all rows, and checks all of the file.
func (f *rollupFile) read(u *unzipper) (*rollup, error) {
	r := f.rollup
	var err error
	if r.labels, err = f.instance(); err != nil {
		return nil, err
	}
	if r.owed.counts, r.owed.spread, err = f.counts(colOwed); err != nil {
		return nil, err
	}
	names, err := f.names(allAtOnce)
	if err != nil {
		return nil, err
	}
	texts, err := f.openTexts(u, allAtOnce)
	if err != nil {
		return nil, err
	}
	spreads, err := f.spreadReader(allAtOnce)
	if err != nil {
		return nil, err
	}
	prints := f.reader(colPrints, allAtOnce)
	var columns [rollupColumns]columnReader
	for c := colFirsts; c < colSpreadEnds; c++ {
		if columns[c], err = f.numberReader(c, allAtOnce); err != nil {
			return nil, err
		}
	}
	r.rows = make([]rollupRow, f.count)
	var sum counts
	var spread stmtstats.Histogram
	for i := range r.rows {
		row := &r.rows[i]
		if err := f.readRow(row, i, &prints, names, texts, &spreads, &columns); err != nil {
			return nil, err
		}
		if i > 0 && r.rows[i-1].print.compare(row.print) >= 0 {
			return nil, badRollup("rows %d and %d are not in order", i-1, i)
		}
		sum.add(&row.counts)
		if err := spread.AddSpread(row.spread); err != nil {
			return nil, badRollup("row %d: %v", i, err)
		}
	}
	var all counts
	var totals stmtstats.Histogram
	if err := f.addTotals(&all, &totals); err != nil {
		return nil, err
	}
	if totals.Nanos = 0; all != sum || totals != spread {
		return nil, badRollup("its totals are not those of its rows")
	}
	return &r, nil
}

// allAtOnce is a window for who reads all of a column.
const allAtOnce = maxRollupBytes

// maxOffset is more milliseconds than any file spans.
const maxOffset = 1 << 40

// readRow reads one row.
func (f *rollupFile) readRow(row *rollupRow, i int, prints *columnReader, names *rollupNames, texts *rollupTexts, spreads *spreadReader, columns *[rollupColumns]columnReader) error {
	b, err := prints.bytes(16*int64(i), 16)
	if err != nil {
		return err
	}
	row.print = keyPrint(b)
	if row.key, err = names.key(i); err != nil {
		return err
	}
	if row.print.isSum() {
		row.key = stmtstats.Key{}
	}
	if b, err = texts.text(i); err != nil {
		return err
	}
	row.text = string(b)
	var v [numCounts]uint64
	for c := range v {
		if v[c], err = columns[colCalls+c].number(i); err != nil {
			return err
		}
	}
	row.counts = countsFrom(&v)
	first, err := columns[colFirsts].number(i)
	if err != nil {
		return err
	}
	last, err := columns[colLasts].number(i)
	if err != nil {
		return err
	}
	if first > maxOffset || last > maxOffset {
		return badRollup("row %d has times %d and %d ms after the start", i, first, last)
	}
	if first > 0 {
		row.first = f.start.UnixMilli() + int64(first) - 1
	}
	row.last = f.start.UnixMilli() + int64(last)
	if b, err = spreads.spread(i); err == nil {
		row.spread = bytes.Clone(b)
	}
	return err
}
