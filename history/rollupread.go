package history

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"time"

	"github.com/klauspost/compress/zstd"
)

// A rollupFile reads a file's columns as they are asked for. What it answers was checked. It is for one
// goroutine.
type rollupFile struct {
	rollup // its rows are not read
	at     io.ReaderAt
	count  int // of rows
	texts  int

	columns [rollupColumns]rollupColumn
	scratch []byte
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
	f := &rollupFile{at: at}
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

// maxStart is the last second at which a file may begin, with room for its span.
const maxStart = math.MaxInt64/1_000_000_000 - 1_000_000

func (f *rollupFile) header(b []byte) error {
	le := binary.LittleEndian
	const end = rollupHeader - 4
	switch {
	case string(b[:8]) != rollupMagic:
		return badRollup("it does not begin as one")
	case le.Uint32(b[8:]) != rollupVersion:
		return badRollup("it is of version %d", le.Uint32(b[8:]))
	case le.Uint32(b[end:]) != crc32.Checksum(b[:end], castagnoli):
		return badRollup("the checksum of its header does not match")
	case int(le.Uint32(b[12:])) != rollupColumns:
		return badRollup("%d columns", le.Uint32(b[12:]))
	}
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

// numbers are the values of a numeric column.
func (f *rollupFile) numbers(column int) ([]uint64, error) {
	c := &f.columns[column]
	b, err := f.whole(column, f.scratch)
	if err != nil {
		return nil, err
	}
	f.scratch = b[:0]
	n := f.count
	switch column {
	case colTextPlaces:
		n = f.texts
	case colTextEnds:
		if n = 0; c.width > 0 {
			n = int(c.bytes) / c.width
		}
	}
	if len(b) != n*c.width {
		return nil, badRollup("column %d has %d bytes", column, len(b))
	}
	dst := make([]uint64, n)
	le := binary.LittleEndian
	switch c.width {
	case 0: // all are 0
	case 1:
		for i := range dst {
			dst[i] = uint64(b[i])
		}
	case 2:
		for i := range dst {
			dst[i] = uint64(le.Uint16(b[2*i:]))
		}
	case 4:
		for i := range dst {
			dst[i] = uint64(le.Uint32(b[4*i:]))
		}
	case 8:
		for i := range dst {
			dst[i] = le.Uint64(b[8*i:])
		}
	default:
		return nil, badRollup("column %d is %d bytes wide", column, c.width)
	}
	return dst, nil
}

// prints are the rows' prints, in dst's memory if it has room.
func (f *rollupFile) prints(dst []keyPrint) ([]keyPrint, error) {
	b, err := f.whole(colPrints, f.scratch)
	if err != nil {
		return nil, err
	}
	f.scratch = b[:0]
	if cap(dst) < f.count {
		dst = make([]keyPrint, f.count)
	}
	dst = dst[:f.count]
	for i := range dst {
		dst[i] = keyPrint(b[16*i:])
		if i > 0 && dst[i-1].compare(dst[i]) >= 0 {
			return nil, badRollup("rows %d and %d are not in order", i-1, i)
		}
	}
	return dst, nil
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
func (f *rollupFile) addTotals(all *counts, spread *Histogram) error {
	c, b, err := f.counts(colTotals)
	if err != nil {
		return err
	}
	all.add(&c)
	spread.nanos += c.nanos
	return spread.addSpread(b)
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
	return countsFrom(&v), b, nil
}

// A rollupNames tells the names of Keys.
type rollupNames struct {
	names   []string
	digests []byte
	numbers [3][]uint64
}

func (f *rollupFile) names() (*rollupNames, error) {
	var n rollupNames
	var err error
	if n.digests, err = f.whole(colDigests, nil); err != nil {
		return nil, err
	}
	b, err := f.whole(colNames, nil)
	if err != nil {
		return nil, err
	}
	for len(b) > 0 {
		size, width := binary.Uvarint(b)
		if width <= 0 || size > uint64(len(b)-width) {
			return nil, badRollup("its names are cut off")
		}
		n.names = append(n.names, string(b[width:][:size]))
		b = b[width+int(size):]
	}
	for i, c := range [...]int{colSchemas, colUsers, colBackends} {
		if n.numbers[i], err = f.numbers(c); err != nil {
			return nil, err
		}
		for _, number := range n.numbers[i] {
			if number >= uint64(len(n.names)) {
				return nil, badRollup("name %d of %d", number, len(n.names))
			}
		}
	}
	return &n, nil
}

func (n *rollupNames) digest(row int) [16]byte { return [16]byte(n.digests[16*row:]) }

func (n *rollupNames) key(row int) Key {
	return Key{
		Digest: n.digest(row), Schema: n.names[n.numbers[0][row]],
		User: n.names[n.numbers[1][row]], Backend: n.names[n.numbers[2][row]],
	}
}

// A rollupTexts tells the texts of rows. It holds one page.
type rollupTexts struct {
	file               *rollupFile
	refs, places, ends []uint64
	z                  *zstd.Decoder
	page               []byte
	number             int // of page; -1: none
}

func (f *rollupFile) openTexts() (*rollupTexts, error) {
	t := &rollupTexts{file: f, number: -1}
	var err error
	if t.refs, err = f.numbers(colTexts); err != nil {
		return nil, err
	}
	if t.places, err = f.numbers(colTextPlaces); err != nil {
		return nil, err
	}
	if t.ends, err = f.numbers(colTextEnds); err != nil {
		return nil, err
	}
	t.z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(textPage), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("read texts: %w", err)
	}
	return t, nil
}

func (t *rollupTexts) close() { t.z.Close() }

// text is that of a row, "" if there is none.
func (t *rollupTexts) text(row int) (string, error) {
	ref := t.refs[row]
	if ref == 0 {
		return "", nil
	}
	if ref > uint64(len(t.places)) {
		return "", badRollup("text %d of %d", ref, len(t.places))
	}
	place := t.places[ref-1]
	if place>>16 >= uint64(len(t.ends)) {
		return "", badRollup("page %d of %d with texts", place>>16, len(t.ends))
	}
	if number := int(place >> 16); number != t.number {
		from := int64(0)
		if number > 0 {
			from = int64(t.ends[number-1])
		}
		b, err := t.file.part(colTextPages, from, int64(t.ends[number])-from, nil)
		if err != nil {
			return "", err
		}
		t.number = -1
		if t.page, err = t.z.DecodeAll(b, t.page[:0]); err != nil {
			return "", badRollup("page %d of its texts: %v", number, err)
		}
		t.number = number
	}
	at := int(place & 0xffff)
	if at > len(t.page) {
		return "", badRollup("a text at %d of %d", at, len(t.page))
	}
	size, width := binary.Uvarint(t.page[at:])
	if width <= 0 || size > uint64(len(t.page)-at-width) {
		return "", badRollup("a text of %d bytes at %d of %d", size, at, len(t.page))
	}
	return string(t.page[at+width:][:size]), nil
}

// A rollupSpreads tells how the durations of rows were spread.
type rollupSpreads struct {
	file    *rollupFile
	ends    []uint64
	scratch []byte
}

func (f *rollupFile) openSpreads() (*rollupSpreads, error) {
	ends, err := f.numbers(colSpreadEnds)
	return &rollupSpreads{file: f, ends: ends, scratch: make([]byte, 0, 2*rollupPage)}, err
}

// spread is that of a row, valid until the next call.
func (s *rollupSpreads) spread(row int) ([]byte, error) {
	from := int64(0)
	if row > 0 {
		from = int64(s.ends[row-1])
	}
	return s.file.part(colSpreads, from, int64(s.ends[row])-from, s.scratch)
}

// read reads all rows, and checks all of the file.
func (f *rollupFile) read() (*rollup, error) {
	r := f.rollup
	var err error
	if r.labels, err = f.instance(); err != nil {
		return nil, err
	}
	if r.owed.counts, r.owed.spread, err = f.counts(colOwed); err != nil {
		return nil, err
	}
	prints, err := f.prints(nil)
	if err != nil {
		return nil, err
	}
	names, err := f.names()
	if err != nil {
		return nil, err
	}
	texts, err := f.openTexts()
	if err != nil {
		return nil, err
	}
	defer texts.close()
	ends, err := f.numbers(colSpreadEnds)
	if err != nil {
		return nil, err
	}
	spreads, err := f.whole(colSpreads, nil)
	if err != nil {
		return nil, err
	}
	var columns [numCounts][]uint64
	for c := range columns {
		if columns[c], err = f.numbers(colCalls + c); err != nil {
			return nil, err
		}
	}
	firsts, err := f.numbers(colFirsts)
	if err != nil {
		return nil, err
	}
	lasts, err := f.numbers(colLasts)
	if err != nil {
		return nil, err
	}
	r.rows = make([]rollupRow, f.count)
	from := uint64(0)
	var sum counts
	var spread Histogram
	for i := range r.rows {
		row := &r.rows[i]
		row.print = prints[i]
		if row.key = names.key(i); row.print.isSum() {
			row.key = Key{}
		}
		if row.text, err = texts.text(i); err != nil {
			return nil, err
		}
		var v [numCounts]uint64
		for c := range columns {
			v[c] = columns[c][i]
		}
		row.counts = countsFrom(&v)
		sum.add(&row.counts)
		if firsts[i] > 0 {
			row.first = r.start.UnixMilli() + int64(firsts[i]) - 1
		}
		row.last = r.start.UnixMilli() + int64(lasts[i])
		if ends[i] < from || ends[i] > uint64(len(spreads)) {
			return nil, badRollup("row %d has no spread from %d to %d", i, from, ends[i])
		}
		row.spread = spreads[from:ends[i]:ends[i]]
		if err := spread.addSpread(row.spread); err != nil {
			return nil, badRollup("row %d: %v", i, err)
		}
		from = ends[i]
	}
	var all counts
	var totals Histogram
	if err := f.addTotals(&all, &totals); err != nil {
		return nil, err
	}
	if totals.nanos = 0; all != sum || totals != spread {
		return nil, badRollup("its totals are not those of its rows")
	}
	return &r, nil
}
