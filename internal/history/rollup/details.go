package rollup

import (
	"slices"
	"sort"
	"sync"

	"github.com/taredb/tare/internal/history/stmtstats"
)

// A Detail is the sum of the rows of one Key in several files.
type Detail struct {
	Print       Print
	Key         stmtstats.Key
	Text        string
	Known       bool // Key and Text are set, or not required
	First, Last int64
	Counts      stmtstats.Counts
	Spread      *stmtstats.Histogram // nil: no rows were added
}

// histograms are reused: one has 9 KiB, and a page adds up a thousand Keys.
var histograms = sync.Pool{New: func() any { return new(stmtstats.Histogram) }} //nolint:gochecknoglobals // of the process

var noSpread stmtstats.Histogram //nolint:gochecknoglobals // constant

// Durations returns the histogram of the durations. It is not to be changed, and valid until Release.
func (d *Detail) Durations() *stmtstats.Histogram {
	if d.Spread == nil {
		return &noSpread
	}
	d.Spread.Nanos = d.Counts[stmtstats.Nanos]
	return d.Spread
}

// Release releases the memory of details. The other fields remain valid.
func Release(details []*Detail) {
	for _, d := range details {
		if d.Spread != nil {
			d.Spread.Reset()
			histograms.Put(d.Spread)
			d.Spread = nil
		}
	}
}

// A DetailReader adds up the rows of given Keys, file by file.
type DetailReader struct {
	Of       []*Detail // in the order of their prints
	rows     []int     // row numbers in the file; -1: none
	values   []stmtstats.Counts
	prints   []byte
	column   ColumnReader
	spreads  SpreadReader
	unzipper TextDecoder
}

// NewDetailReader returns a reader of the rows with these prints.
func NewDetailReader(of []*Detail) *DetailReader {
	of = slices.Clone(of)
	slices.SortFunc(of, func(a, b *Detail) int { return a.Print.Compare(b.Print) })
	return &DetailReader{Of: of, rows: make([]int, len(of))}
}

// Close releases the memory of the reader.
func (r *DetailReader) Close() {
	r.unzipper.Close()
	release(&r.prints)
	r.column.Release()
	r.spreads.Release()
}

// Find finds the rows in a file, and reports whether there are any.
func (r *DetailReader) Find(f *File) (any bool, err error) {
	if r.prints, err = f.Whole(ColPrints, r.prints[:0]); err != nil {
		return false, err
	}
	from := 0
	for i, d := range r.Of {
		from += sort.Search(f.NumRows-from, func(i int) bool { return Print(r.prints[16*(from+i):]).Compare(d.Print) >= 0 })
		r.rows[i] = -1
		if from < f.NumRows && Print(r.prints[16*from:]) == d.Print {
			r.rows[i], any = from, true
		}
	}
	return any, nil
}

// Each visits the values of a numeric column in the rows found.
func (r *DetailReader) Each(f *File, column int, visit func(i int, n uint64)) error {
	reader, err := f.Numbers(column, r.window(f, column))
	if err != nil {
		return err
	}
	r.column.reset(reader)
	for i, row := range r.rows {
		if row < 0 {
			continue
		}
		n, err := r.column.Number(row)
		if err != nil {
			return err
		}
		visit(i, n)
	}
	return nil
}

// manyWindow is the window of a column of which many pages are read.
const manyWindow = 64 << 10

// window returns the window for reading the rows of a column: a page each time if they are few.
func (r *DetailReader) window(f *File, column int) int64 {
	if pages := f.columns[column].bytes / PageBytes; !f.Remote && int64(len(r.Of)) > pages/4 {
		return manyWindow
	}
	return f.little()
}

// Add adds the rows of a file.
func (r *DetailReader) Add(f *File) error {
	if any, err := r.Find(f); err != nil || !any {
		return err
	}
	return r.addFound(f)
}

// addFound adds the rows that were found in a file.
func (r *DetailReader) addFound(f *File) error {
	if err := r.fillKeys(f); err != nil {
		return err
	}
	if len(r.values) < len(r.Of) {
		r.values = make([]stmtstats.Counts, len(r.Of))
	}
	values := r.values[:len(r.Of)]
	clear(values)
	for c := range stmtstats.NumCounters {
		if f.columns[colCounts+c].width == 0 {
			continue
		}
		if err := r.Each(f, colCounts+c, func(i int, n uint64) { values[i][c] = n }); err != nil {
			return err
		}
	}
	start := f.Start.UnixMilli()
	if err := r.Each(f, ColFirsts, func(i int, n uint64) {
		d := r.Of[i]
		if first := int64(n); first > 0 && (d.First == 0 || start+first-1 < d.First) {
			d.First = start + first - 1
		}
	}); err != nil {
		return err
	}
	if err := r.Each(f, colLasts, func(i int, n uint64) { r.Of[i].Last = max(r.Of[i].Last, start+int64(n)) }); err != nil {
		return err
	}
	spreads, err := f.Spreads(r.window(f, colSpreads))
	if err != nil {
		return err
	}
	r.spreads.reset(spreads)
	for i, d := range r.Of {
		if r.rows[i] < 0 {
			continue
		}
		d.Counts.Add(&values[i])
		spread, err := r.spreads.Spread(r.rows[i])
		if err == nil {
			if d.Spread == nil {
				d.Spread = histograms.Get().(*stmtstats.Histogram)
			}
			if bad := d.Spread.AddSpread(spread); bad != nil {
				err = FormatErrorf("a spread: %v", bad)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fillKeys sets missing Keys and texts.
func (r *DetailReader) fillKeys(f *File) error {
	var names *KeyReader
	var texts *TextReader
	for i, d := range r.Of {
		if d.Known || r.rows[i] < 0 {
			continue
		}
		var err error
		if names == nil {
			if names, err = f.Keys(f.little()); err != nil {
				return err
			}
			defer names.Release()
			if texts, err = f.Texts(&r.unzipper, f.little()); err != nil {
				return err
			}
			defer texts.Release()
		}
		if d.Key, err = names.Key(r.rows[i]); err != nil {
			return err
		}
		text, err := texts.Text(r.rows[i])
		if err != nil {
			return err
		}
		d.Text = string(text)
		d.Known = d.Text != ""
	}
	return nil
}

// A DigestReader reads the rows of one digest, file by file.
type DigestReader struct {
	digest  [16]byte
	details DetailReader // of all rows so far
	digests []byte
	prints  ColumnReader
}

// NewDigestReader returns a reader of the rows of a digest.
func NewDigestReader(digest [16]byte) *DigestReader { return &DigestReader{digest: digest} }

// Close releases the memory of the reader.
func (r *DigestReader) Close() {
	r.details.Close()
	Release(r.details.Of)
	release(&r.digests)
	r.prints.Release()
}

// Read visits the rows of the digest in a file. A Detail is valid during the visit, and has the sums of this file. Its
// text may be that of a file read before.
func (r *DigestReader) Read(f *File, visit func(*Detail)) error {
	for i, d := range r.details.Of {
		r.details.rows[i] = -1
		d.First, d.Last, d.Counts = 0, 0, stmtstats.Counts{}
		if d.Spread != nil {
			d.Spread.Reset()
		}
	}
	if any, err := r.find(f); err != nil || !any {
		return err
	}
	if err := r.details.addFound(f); err != nil {
		return err
	}
	for i, row := range r.details.rows {
		if row >= 0 {
			visit(r.details.Of[i])
		}
	}
	return nil
}

// find finds the rows in a file, and reports whether there are any.
func (r *DigestReader) find(f *File) (any bool, err error) {
	if r.digests, err = f.Whole(ColDigests, r.digests[:0]); err != nil {
		return false, err
	}
	r.prints.reset(f.Column(ColPrints, f.little()))
	for row := range f.NumRows {
		if [16]byte(r.digests[16*row:]) != r.digest {
			continue
		}
		b, err := r.prints.Bytes(16*int64(row), 16)
		if err != nil {
			return false, err
		}
		if p := Print(b); !p.IsSum() {
			r.details.rows[r.details.number(p)], any = row, true
		}
	}
	return any, nil
}

// number returns the number of the Detail with a print, and adds one if there is none.
func (r *DetailReader) number(p Print) int {
	i, found := slices.BinarySearchFunc(r.Of, p, func(d *Detail, p Print) int { return d.Print.Compare(p) })
	if !found {
		r.Of, r.rows = slices.Insert(r.Of, i, &Detail{Print: p}), slices.Insert(r.rows, i, -1)
	}
	return i
}
