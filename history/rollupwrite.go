package history

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/taredb/tare/stmtstats"
)

// textPage is how much text is compressed together.
const textPage = 64 << 10

// A rollupWriter makes the bytes of a file.
type rollupWriter struct {
	columns [rollupColumns][]byte
	widths  [rollupColumns]int
	texts   int
}

// encode is r as a file. It puts r's rows in order, and those together that are too many.
func (r *rollup) encode() ([]byte, error) {
	if err := r.bound(); err != nil {
		return nil, err
	}
	slices.SortFunc(r.rows, func(a, b rollupRow) int { return a.print.compare(b.print) })
	w := &rollupWriter{}
	labels, err := json.Marshal(r.labels)
	if err != nil {
		return nil, fmt.Errorf("labels of a rollup: %w", err)
	}
	w.columns[colLabels] = labels
	if err := w.addTotals(r); err != nil {
		return nil, err
	}
	w.addKeys(r)
	if err := w.addTexts(r); err != nil {
		return nil, err
	}
	values := make([]uint64, len(r.rows))
	column := func(c int, value func(row *rollupRow) uint64) {
		for i := range r.rows {
			values[i] = value(&r.rows[i])
		}
		w.numbers(c, values)
	}
	start := r.start.UnixMilli()
	column(colFirsts, func(row *rollupRow) uint64 {
		if row.first == 0 {
			return 0
		}
		return uint64(max(row.first-start, 0)) + 1
	})
	column(colLasts, func(row *rollupRow) uint64 { return uint64(max(row.last-start, 0)) })
	for c := range numCounts {
		column(colCalls+c, func(row *rollupRow) uint64 { return row.counts.values()[c] })
	}
	spreads := 0
	for i := range r.rows {
		spreads += len(r.rows[i].spread)
	}
	w.columns[colSpreads] = make([]byte, 0, spreads)
	column(colSpreadEnds, func(row *rollupRow) uint64 {
		w.columns[colSpreads] = append(w.columns[colSpreads], row.spread...)
		return uint64(len(w.columns[colSpreads]))
	})
	return w.file(r), nil
}

// bound has the rows of the least time count as Other when there are too many.
func (r *rollup) bound() error {
	if len(r.rows) <= maxRollupRows {
		return nil
	}
	rest := rollupRow{print: otherPrint()}
	var spread stmtstats.Histogram
	selectFirst(r.rows, maxRollupRows-1, func(a, b rollupRow) int {
		sums := func(row rollupRow) int {
			if row.print.isSum() {
				return 1
			}
			return 0
		}
		return cmp.Or(sums(b)-sums(a), cmp.Compare(b.counts.nanos, a.counts.nanos), a.print.compare(b.print))
	})
	drop := r.rows[maxRollupRows-1:]
	r.rows = r.rows[:maxRollupRows-1]
	for i := range r.rows {
		if r.rows[i].print == otherPrint() {
			drop = append(slices.Clone(drop), r.rows[i])
			r.rows = slices.Delete(r.rows, i, i+1)
			break
		}
	}
	for i := range drop {
		rest.counts.add(&drop[i].counts)
		rest.last = max(rest.last, drop[i].last)
		if err := spread.AddSpread(drop[i].spread); err != nil {
			return err
		}
	}
	rest.spread = spread.AppendSpread(nil)
	r.rows = append(r.rows, rest)
	return nil
}

func (w *rollupWriter) addTotals(r *rollup) error {
	var all counts
	var spread stmtstats.Histogram
	for i := range r.rows {
		all.add(&r.rows[i].counts)
		if err := spread.AddSpread(r.rows[i].spread); err != nil {
			return err
		}
	}
	w.columns[colTotals] = append(all.appendTo(nil), spread.AppendSpread(nil)...)
	w.columns[colOwed] = append(r.owed.counts.appendTo(nil), r.owed.spread...)
	return nil
}

func (w *rollupWriter) addKeys(r *rollup) {
	names := make(map[string]uint64)
	number := func(name string) uint64 {
		n, ok := names[name]
		if !ok {
			n = uint64(len(names))
			names[name] = n
			b := binary.AppendUvarint(w.columns[colNames], uint64(len(name)))
			w.columns[colNames] = append(b, name...)
		}
		return n
	}
	var numbers [3][]uint64
	for n := range numbers {
		numbers[n] = make([]uint64, 0, len(r.rows))
	}
	w.columns[colPrints], w.columns[colDigests] = make([]byte, 0, 16*len(r.rows)), make([]byte, 0, 16*len(r.rows))
	for i := range r.rows {
		row := &r.rows[i]
		w.columns[colPrints] = append(w.columns[colPrints], row.print[:]...)
		w.columns[colDigests] = append(w.columns[colDigests], row.key.Digest[:]...)
		for n, name := range [...]string{row.key.Schema, row.key.User, row.key.Backend} {
			numbers[n] = append(numbers[n], number(name))
		}
	}
	for n, c := range [...]int{colSchemas, colUsers, colBackends} {
		w.numbers(c, numbers[n])
	}
}

// addTexts keeps the text of each digest once.
func (w *rollupWriter) addTexts(r *rollup) error {
	appendFrame := appendPlainFrame
	if !r.plain {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(textPage))
		if err != nil {
			return fmt.Errorf("compress texts: %w", err)
		}
		defer func() { _ = z.Close() }() // it has no stream
		appendFrame = func(dst, page []byte) []byte { return z.EncodeAll(page, dst) }
	}
	var page []byte
	var ends, places []uint64
	flush := func() {
		if len(page) > 0 {
			w.columns[colTextPages] = appendFrame(w.columns[colTextPages], page)
			ends = append(ends, uint64(len(w.columns[colTextPages])))
			page = page[:0]
		}
	}
	known := make(map[[16]byte]uint64)
	refs := make([]uint64, len(r.rows))
	for i := range r.rows {
		row := &r.rows[i]
		if row.text == "" {
			continue
		}
		n, ok := known[row.key.Digest]
		if !ok {
			if len(page)+len(row.text)+binary.MaxVarintLen32 > textPage {
				flush()
			}
			places = append(places, uint64(len(ends))<<16|uint64(len(page)))
			page = binary.AppendUvarint(page, uint64(len(row.text)))
			page = append(page, row.text...)
			n = uint64(len(places))
			known[row.key.Digest] = n
		}
		refs[i] = n
	}
	flush()
	w.texts = len(places)
	w.numbers(colTexts, refs)
	w.numbers(colTextPlaces, places)
	w.numbers(colTextEnds, ends)
	return nil
}

// appendPlainFrame appends a page of texts as a zstd frame of one block that is not compressed (RFC 8878, 3.1.1).
func appendPlainFrame(dst, page []byte) []byte {
	const (
		zstdMagic  = 0xFD2FB528
		descriptor = 2<<6 | 1<<5 // four bytes say how long the content is, and no window
		lastBlock  = 1           // which is raw; its length is in the bits from the third on
	)
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, zstdMagic)
	dst = append(dst, descriptor)
	dst = le.AppendUint32(dst, uint32(len(page)))
	block := uint32(len(page))<<3 | lastBlock
	dst = append(dst, byte(block), byte(block>>8), byte(block>>16))
	return append(dst, page...)
}

// numbers sets a numeric column.
func (w *rollupWriter) numbers(column int, values []uint64) {
	var all uint64
	for _, v := range values {
		all |= v
	}
	width := widthOf(all)
	b := make([]byte, 0, width*len(values))
	for _, v := range values {
		switch width {
		case 1:
			b = append(b, byte(v))
		case 2:
			b = binary.LittleEndian.AppendUint16(b, uint16(v))
		case 4:
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		case 8:
			b = binary.LittleEndian.AppendUint64(b, v)
		}
	}
	w.columns[column], w.widths[column] = b, width
}

// widthOf is how many bytes hold a number.
func widthOf(n uint64) int {
	if n == 0 {
		return 0
	}
	return 1 << bits.Len(uint(bits.Len64(n)-1)/8)
}

// file puts all together.
func (w *rollupWriter) file(r *rollup) []byte {
	size := rollupHeader + rollupTail
	for _, c := range w.columns {
		size += len(c) + 12 + 4*(len(c)/rollupPage+1)
	}
	b := make([]byte, 0, size)
	le := binary.LittleEndian
	b = append(b, rollupMagic...)
	b = le.AppendUint32(b, rollupVersion)
	b = le.AppendUint32(b, uint32(rollupColumns))
	b = le.AppendUint32(b, uint32(len(r.rows)))
	b = le.AppendUint32(b, uint32(w.texts))
	b = le.AppendUint64(b, uint64(r.start.Unix()))
	b = le.AppendUint32(b, uint32(r.span/1e9))
	b = le.AppendUint64(b, uint64(r.last))
	b = le.AppendUint32(b, crc32.Checksum(b, castagnoli))
	for _, c := range w.columns {
		b = append(b, c...)
	}
	footer := len(b)
	for i, c := range w.columns {
		b = le.AppendUint32(b, uint32(w.widths[i]))
		b = le.AppendUint64(b, uint64(len(c)))
		for at := 0; at < len(c); at += rollupPage {
			b = le.AppendUint32(b, crc32.Checksum(c[at:min(at+rollupPage, len(c))], castagnoli))
		}
	}
	sum := crc32.Checksum(b[footer:], castagnoli)
	length := uint32(len(b) - footer)
	b = le.AppendUint32(b, sum)
	b = le.AppendUint32(b, length)
	return append(b, rollupMagic...)
}
