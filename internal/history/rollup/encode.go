package rollup

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
	"runtime"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/parallel"
)

// textPage is the number of bytes of text that are compressed together.
const textPage = 64 << 10

// An encoder builds the columns of a file.
type encoder struct {
	columns [numColumns][]byte
	widths  [numColumns]int
	texts   int
}

// Encode returns r as a file. It sorts the rows, and merges those beyond MaxRows.
func (r *Rollup) Encode() ([]byte, error) {
	if err := r.bound(); err != nil {
		return nil, err
	}
	slices.SortFunc(r.Rows, func(a, b Row) int { return a.Print.Compare(b.Print) })
	w := &encoder{}
	labels, err := json.Marshal(r.Labels)
	if err != nil {
		return nil, fmt.Errorf("labels of a rollup: %w", err)
	}
	w.columns[colLabels] = labels
	// A temporary file is encoded while a request waits for it; others are encoded in the background.
	concurrent := 1
	if r.Uncompressed {
		concurrent = runtime.GOMAXPROCS(0)
	}
	steps := []func(*Rollup) error{w.addTexts, w.addCounts, w.addKeys, w.addTotals, w.addSpreads}
	err = parallel.ForEach(context.Background(), concurrent, steps, func(_ context.Context, add func(*Rollup) error) error { return add(r) })
	if err != nil {
		return nil, err
	}
	return w.file(r), nil
}

// addCounts adds the columns of times and counts.
func (w *encoder) addCounts(r *Rollup) error {
	start := r.Start.UnixMilli()
	w.column(r, ColFirsts, func(row *Row) uint64 {
		if row.First == 0 {
			return 0
		}
		return uint64(max(row.First-start, 0)) + 1
	})
	w.column(r, colLasts, func(row *Row) uint64 { return uint64(max(row.Last-start, 0)) })
	for c := range stmtstats.NumCounters {
		w.column(r, colCounts+c, func(row *Row) uint64 { return row.Counts[c] })
	}
	return nil
}

// addSpreads adds the columns of the spreads.
func (w *encoder) addSpreads(r *Rollup) error {
	spreads := 0
	for i := range r.Rows {
		spreads += len(r.Rows[i].Spread)
	}
	w.columns[colSpreads] = make([]byte, 0, spreads)
	w.column(r, colSpreadEnds, func(row *Row) uint64 {
		w.columns[colSpreads] = append(w.columns[colSpreads], row.Spread...)
		return uint64(len(w.columns[colSpreads]))
	})
	return nil
}

// column sets a numeric column to a value of each row.
func (w *encoder) column(r *Rollup, column int, value func(row *Row) uint64) {
	values := make([]uint64, len(r.Rows))
	for i := range r.Rows {
		values[i] = value(&r.Rows[i])
	}
	w.numbers(column, values)
}

// bound counts the rows of the least time as Other if there are too many.
func (r *Rollup) bound() error {
	if len(r.Rows) <= MaxRows {
		return nil
	}
	rest := Row{Print: OtherPrint()}
	var spread stmtstats.Histogram
	slices.SortFunc(r.Rows, func(a, b Row) int {
		sums := func(row Row) int {
			if row.Print.IsSum() {
				return 1
			}
			return 0
		}
		return cmp.Or(sums(b)-sums(a), cmp.Compare(b.Counts[stmtstats.Nanos], a.Counts[stmtstats.Nanos]), a.Print.Compare(b.Print))
	})
	drop := r.Rows[MaxRows-1:]
	r.Rows = r.Rows[:MaxRows-1]
	for i := range r.Rows {
		if r.Rows[i].Print == OtherPrint() {
			drop = append(slices.Clone(drop), r.Rows[i])
			r.Rows = slices.Delete(r.Rows, i, i+1)
			break
		}
	}
	for i := range drop {
		rest.Counts.Add(&drop[i].Counts)
		rest.Last = max(rest.Last, drop[i].Last)
		if err := spread.AddSpread(drop[i].Spread); err != nil {
			return err
		}
	}
	rest.Spread = spread.AppendSpread(nil)
	r.Rows = append(r.Rows, rest)
	return nil
}

func (w *encoder) addTotals(r *Rollup) error {
	var all stmtstats.Counts
	var spread stmtstats.Histogram
	for i := range r.Rows {
		all.Add(&r.Rows[i].Counts)
		if err := spread.AddSpread(r.Rows[i].Spread); err != nil {
			return err
		}
	}
	w.columns[colTotals] = append(appendCounts(nil, &all), spread.AppendSpread(nil)...)
	w.columns[colOwed] = append(appendCounts(nil, &r.Carry.Counts), r.Carry.Spread...)
	return nil
}

// appendCounts appends all counts as varints.
func appendCounts(dst []byte, c *stmtstats.Counts) []byte {
	for _, n := range c {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

func (w *encoder) addKeys(r *Rollup) error {
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
		numbers[n] = make([]uint64, 0, len(r.Rows))
	}
	w.columns[ColPrints], w.columns[ColDigests] = make([]byte, 0, 16*len(r.Rows)), make([]byte, 0, 16*len(r.Rows))
	for i := range r.Rows {
		row := &r.Rows[i]
		w.columns[ColPrints] = append(w.columns[ColPrints], row.Print[:]...)
		w.columns[ColDigests] = append(w.columns[ColDigests], row.Key.Digest[:]...)
		for n, name := range [...]string{row.Key.Schema, row.Key.User, row.Key.Backend} {
			numbers[n] = append(numbers[n], number(name))
		}
	}
	for n, c := range [...]int{colSchemas, colUsers, colBackends} {
		w.numbers(c, numbers[n])
	}
	return nil
}

// addTexts stores the text of each digest once.
func (w *encoder) addTexts(r *Rollup) error {
	appendFrame := appendPlainFrame
	if !r.Uncompressed {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(textPage))
		if err != nil {
			return fmt.Errorf("compress texts: %w", err)
		}
		defer func() { _ = z.Close() }() // it has no stream
		appendFrame = func(dst, page []byte) []byte { return z.EncodeAll(page, dst) }
	}
	page := make([]byte, 0, textPage)
	places := make([]uint64, 0, len(r.Rows))
	var ends []uint64
	flush := func() {
		if len(page) > 0 {
			w.columns[colTextPages] = appendFrame(w.columns[colTextPages], page)
			ends = append(ends, uint64(len(w.columns[colTextPages])))
			page = page[:0]
		}
	}
	known := make(map[[16]byte]uint64, len(r.Rows))
	refs := make([]uint64, len(r.Rows))
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Text == "" {
			continue
		}
		n, ok := known[row.Key.Digest]
		if !ok {
			if len(page)+len(row.Text)+binary.MaxVarintLen32 > textPage {
				flush()
			}
			places = append(places, uint64(len(ends))<<16|uint64(len(page)))
			page = binary.AppendUvarint(page, uint64(len(row.Text)))
			page = append(page, row.Text...)
			n = uint64(len(places))
			known[row.Key.Digest] = n
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
		descriptor = 2<<6 | 1<<5 // a content size of four bytes, and no window
		lastBlock  = 1           // a raw block; its length follows in the bits from the third on
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
func (w *encoder) numbers(column int, values []uint64) {
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

// widthOf returns the number of bytes of a number: 0, 1, 2, 4 or 8.
func widthOf(n uint64) int {
	if n == 0 {
		return 0
	}
	return 1 << bits.Len(uint(bits.Len64(n)-1)/8)
}

// file assembles the file.
func (w *encoder) file(r *Rollup) []byte {
	size := headerBytes + tailBytes
	for i, c := range w.columns {
		size += len(c) + 1 + len(columnName(i)) + 12 + 4*(len(c)/PageBytes+1)
	}
	b := make([]byte, 0, size)
	le := binary.LittleEndian
	b = append(b, magic...)
	b = le.AppendUint32(b, formatVersion)
	b = le.AppendUint32(b, uint32(numColumns))
	b = le.AppendUint32(b, uint32(len(r.Rows)))
	b = le.AppendUint32(b, uint32(w.texts))
	b = le.AppendUint64(b, uint64(r.Start.Unix()))
	b = le.AppendUint32(b, uint32(r.Span/1e9))
	b = le.AppendUint64(b, uint64(r.Last))
	b = le.AppendUint32(b, checksum(b))
	for _, c := range w.columns {
		b = append(b, c...)
	}
	footer := len(b)
	for i, c := range w.columns {
		name := columnName(i)
		b = append(append(b, byte(len(name))), name...)
		b = le.AppendUint32(b, uint32(w.widths[i]))
		b = le.AppendUint64(b, uint64(len(c)))
		for at := 0; at < len(c); at += PageBytes {
			b = le.AppendUint32(b, checksum(c[at:min(at+PageBytes, len(c))]))
		}
	}
	sum := checksum(b[footer:])
	length := uint32(len(b) - footer)
	b = le.AppendUint32(b, sum)
	b = le.AppendUint32(b, length)
	return append(b, magic...)
}
