package rollup

import (
	"slices"
	"sort"

	"github.com/taredb/tare/stmtstats"
)

// A Detail is the sum of the rows of one Key in several files.
type Detail struct {
	Print       Print
	Key         stmtstats.Key
	Text        string
	Known       bool // Key and Text are set, or not required
	First, Last int64
	Counts      Counts
	Spread      stmtstats.Histogram
}

// A DetailReader adds up the rows of given Keys, file by file.
type DetailReader struct {
	Of       []*Detail // in the order of their prints
	rows     []int     // row numbers in the file; -1: none
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

// Close releases the decoder of texts.
func (r *DetailReader) Close() { r.unzipper.Close() }

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
	reader, err := f.Numbers(column, f.little())
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

// Add adds the rows of a file.
func (r *DetailReader) Add(f *File) error {
	if any, err := r.Find(f); err != nil || !any {
		return err
	}
	if err := r.fillKeys(f); err != nil {
		return err
	}
	values := make([][numCounts]uint64, len(r.Of))
	for c := range numCounts {
		if f.columns[ColCalls+c].width == 0 {
			continue
		}
		if err := r.Each(f, ColCalls+c, func(i int, n uint64) { values[i][c] = n }); err != nil {
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
	spreads, err := f.Spreads(f.little())
	if err != nil {
		return err
	}
	r.spreads.reset(spreads)
	for i, d := range r.Of {
		if r.rows[i] < 0 {
			continue
		}
		more := countsFrom(&values[i])
		d.Counts.Add(&more)
		spread, err := r.spreads.Spread(r.rows[i])
		if err == nil {
			err = d.Spread.AddSpread(spread)
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
			if texts, err = f.Texts(&r.unzipper, f.little()); err != nil {
				return err
			}
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
