package history

import (
	"slices"
	"sort"

	"github.com/taredb/tare/stmtstats"
)

// A detail is all that is known of a row that is shown.
type detail struct {
	print       keyPrint
	key         stmtstats.Key
	text        string
	known       bool // key and text are, or are not asked for
	first, last int64
	counts      counts
	spread      stmtstats.Histogram
}

// A detailer reads rows from file after file.
type detailer struct {
	of       []*detail // in the order of their prints
	rows     []int     // where they are in the file; -1: they are not
	prints   []byte
	column   columnReader
	spreads  spreadReader
	unzipper unzipper
}

func newDetailer(of []*detail) *detailer {
	of = slices.Clone(of)
	slices.SortFunc(of, func(a, b *detail) int { return a.print.compare(b.print) })
	return &detailer{of: of, rows: make([]int, len(of))}
}

func (r *detailer) close() { r.unzipper.close() }

// find looks for the rows in a file, and says whether there are any.
func (r *detailer) find(f *rollupFile) (any bool, err error) {
	if r.prints, err = f.whole(colPrints, r.prints[:0]); err != nil {
		return false, err
	}
	from := 0
	for i, d := range r.of {
		from += sort.Search(f.count-from, func(i int) bool { return keyPrint(r.prints[16*(from+i):]).compare(d.print) >= 0 })
		r.rows[i] = -1
		if from < f.count && keyPrint(r.prints[16*from:]) == d.print {
			r.rows[i], any = from, true
		}
	}
	return any, nil
}

// each visits what a column has of the rows that were found.
func (r *detailer) each(f *rollupFile, column int, visit func(i int, n uint64)) error {
	reader, err := f.numberReader(column, f.little())
	if err != nil {
		return err
	}
	r.column.reset(reader)
	for i, row := range r.rows {
		if row < 0 {
			continue
		}
		n, err := r.column.number(row)
		if err != nil {
			return err
		}
		visit(i, n)
	}
	return nil
}

// add adds what a file has of the rows.
func (r *detailer) add(f *rollupFile) error {
	if any, err := r.find(f); err != nil || !any {
		return err
	}
	if err := r.tell(f); err != nil {
		return err
	}
	values := make([][numCounts]uint64, len(r.of))
	for c := range numCounts {
		if f.columns[colCalls+c].width == 0 {
			continue
		}
		if err := r.each(f, colCalls+c, func(i int, n uint64) { values[i][c] = n }); err != nil {
			return err
		}
	}
	start := f.start.UnixMilli()
	if err := r.each(f, colFirsts, func(i int, n uint64) {
		d := r.of[i]
		if first := int64(n); first > 0 && (d.first == 0 || start+first-1 < d.first) {
			d.first = start + first - 1
		}
	}); err != nil {
		return err
	}
	if err := r.each(f, colLasts, func(i int, n uint64) { r.of[i].last = max(r.of[i].last, start+int64(n)) }); err != nil {
		return err
	}
	spreads, err := f.spreadReader(f.little())
	if err != nil {
		return err
	}
	r.spreads.reset(spreads)
	for i, d := range r.of {
		if r.rows[i] < 0 {
			continue
		}
		more := countsFrom(&values[i])
		d.counts.add(&more)
		spread, err := r.spreads.spread(r.rows[i])
		if err == nil {
			err = d.spread.AddSpread(spread)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tell gives Keys and texts to those of the rows that have none.
func (r *detailer) tell(f *rollupFile) error {
	var names *rollupNames
	var texts *rollupTexts
	for i, d := range r.of {
		if d.known || r.rows[i] < 0 {
			continue
		}
		var err error
		if names == nil {
			if names, err = f.names(f.little()); err != nil {
				return err
			}
			if texts, err = f.openTexts(&r.unzipper, f.little()); err != nil {
				return err
			}
		}
		if d.key, err = names.key(r.rows[i]); err != nil {
			return err
		}
		text, err := texts.text(r.rows[i])
		if err != nil {
			return err
		}
		d.text = string(text)
		d.known = d.text != ""
	}
	return nil
}
