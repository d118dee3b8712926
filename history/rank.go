package history

import (
	"encoding/binary"
	"errors"
	"sort"
)

// maxRanked bounds how many Keys are compared with each other.
const maxRanked = 1 << 21

var errTooMany = errors.New("more statements than can be compared with each other: ask for a shorter time")

// A raw is a numeric column as it is in the file.
type raw struct {
	bytes []byte
	width int
}

// raw reads a numeric column that has a value for each row.
func (f *rollupFile) raw(column int) (raw, error) {
	c := &f.columns[column]
	switch c.width {
	case 0, 1, 2, 4, 8:
	default:
		return raw{}, badRollup("column %d is %d bytes wide", column, c.width)
	}
	b, err := f.whole(column, nil)
	return raw{b, c.width}, err
}

func (r raw) at(row int) uint64 {
	switch r.width {
	case 1:
		return uint64(r.bytes[row])
	case 2:
		return uint64(binary.LittleEndian.Uint16(r.bytes[2*row:]))
	case 4:
		return uint64(binary.LittleEndian.Uint32(r.bytes[4*row:]))
	case 8:
		return binary.LittleEndian.Uint64(r.bytes[8*row:])
	}
	return 0
}

// A ranking compares what all Keys have of a measure.
type ranking struct {
	by     Measure
	filter filter

	numbers map[keyPrint]uint32 // in the slices; unwanted for what the filter does not want
	prints  []keyPrint
	values  []counts2
	spreads [][]byte // with ByP99
	scratch Histogram
}

const unwanted = 1<<32 - 1

// counts2 are the two counts that a measure may be made of.
type counts2 [2]uint64

// columnsOf are the columns that a measure is made of.
func (m Measure) columnsOf() []int {
	switch m {
	case BySeconds:
		return []int{colNanos}
	case ByCalls:
		return []int{colCalls}
	case ByRowsSent:
		return []int{colRowsSent}
	case ByRowsAffected:
		return []int{colRowsAffected}
	case ByBytesSent:
		return []int{colBytesSent}
	case ByMean:
		return []int{colNanos, colCalls}
	case ByErrors:
		columns := make([]int, ErrorClasses)
		for i := range columns {
			columns[i] = colErrors + i
		}
		return columns
	case ByFirstSeen:
		return []int{colFirsts}
	}
	return nil
}

// add adds a file. It reads all that it needs before it changes anything.
func (r *ranking) add(f *rollupFile) error {
	prints, err := f.whole(colPrints, nil)
	if err != nil {
		return err
	}
	var columns []raw
	for _, c := range r.by.columnsOf() {
		column, err := f.raw(c)
		if err != nil {
			return err
		}
		columns = append(columns, column)
	}
	var spreads *rollupSpreads
	if r.by == ByP99 {
		if spreads, err = f.openSpreads(); err != nil {
			return err
		}
	}
	var names *rollupNames
	var texts *rollupTexts
	if len(r.filter.terms) > 0 {
		if names, err = f.names(); err != nil {
			return err
		}
		if r.filter.wantText {
			if texts, err = f.openTexts(); err != nil {
				return err
			}
			defer texts.close()
		}
	}
	start := uint64(f.start.UnixMilli())
	for row := range f.count {
		p := keyPrint(prints[16*row:])
		n, known := r.numbers[p]
		if !known {
			if n, err = r.admit(p, row, names, texts); err != nil {
				return err
			}
		}
		if n == unwanted {
			continue
		}
		v := &r.values[n]
		switch r.by {
		case ByMean:
			v[0] += columns[0].at(row)
			v[1] += columns[1].at(row)
		case ByFirstSeen:
			if first := columns[0].at(row); first > 0 && (v[0] == 0 || start+first < v[0]) {
				v[0] = start + first
			}
		case ByP99:
			if err := r.addSpread(n, row, spreads); err != nil {
				return err
			}
		default:
			for _, c := range columns {
				v[0] += c.at(row)
			}
		}
	}
	return nil
}

func (r *ranking) admit(p keyPrint, row int, names *rollupNames, texts *rollupTexts) (uint32, error) {
	n := uint32(len(r.prints))
	switch {
	case p.isSum():
		n = unwanted
	case names != nil:
		k := names.key(row)
		var text string
		if texts != nil {
			var err error
			if text, err = texts.text(row); err != nil {
				return 0, err
			}
		}
		if !r.filter.matches(&k, text) {
			n = unwanted
		}
	}
	if n != unwanted {
		if n == maxRanked {
			return 0, errTooMany
		}
		r.prints = append(r.prints, p)
		r.values = append(r.values, counts2{})
		if r.by == ByP99 {
			r.spreads = append(r.spreads, nil)
		}
	}
	r.numbers[p] = n
	return n, nil
}

func (r *ranking) addSpread(n uint32, row int, spreads *rollupSpreads) error {
	spread, err := spreads.spread(row)
	if err != nil {
		return err
	}
	r.scratch.Reset()
	if err := r.scratch.addSpread(r.spreads[n]); err != nil {
		return err
	}
	if err := r.scratch.addSpread(spread); err != nil {
		return err
	}
	r.spreads[n] = r.scratch.appendSpread(r.spreads[n][:0])
	return nil
}

// rows are all Keys that match.
func (r *ranking) rows() []ranked {
	rows := make([]ranked, len(r.prints))
	for n, v := range r.values {
		row := &rows[n]
		row.number, row.id = uint32(n), binary.BigEndian.Uint64(r.prints[n][:])
		switch r.by {
		case ByMean:
			row.value = float64(v[0]) / float64(max(v[1], 1))
		case ByP99:
			r.scratch.Reset()
			if r.scratch.addSpread(r.spreads[n]) == nil { // it was made of what could be read
				row.value = float64(r.scratch.Quantile(0.99))
			}
		default:
			row.value = float64(v[0])
		}
	}
	return rows
}

// A detail is all that is known of a row that is shown.
type detail struct {
	print       keyPrint
	key         Key
	text        string
	known       bool // key and text are, or are not asked for
	first, last int64
	counts      counts
	spread      Histogram
}

// details adds a file to the rows that are shown.
func (f *rollupFile) details(of []*detail) error {
	prints, err := f.whole(colPrints, nil)
	if err != nil {
		return err
	}
	rows := make([]int, len(of))
	any := false
	for i, d := range of {
		rows[i] = findPrint(prints, f.count, d.print)
		any = any || rows[i] >= 0
	}
	if !any {
		return nil
	}
	var columns [numCounts]raw
	for c := range columns {
		if columns[c], err = f.raw(colCalls + c); err != nil {
			return err
		}
	}
	firsts, err := f.raw(colFirsts)
	if err != nil {
		return err
	}
	lasts, err := f.raw(colLasts)
	if err != nil {
		return err
	}
	spreads, err := f.openSpreads()
	if err != nil {
		return err
	}
	var names *rollupNames
	var texts *rollupTexts
	start := f.start.UnixMilli()
	for i, d := range of {
		row := rows[i]
		if row < 0 {
			continue
		}
		if !d.known {
			if names == nil {
				if names, err = f.names(); err != nil {
					return err
				}
				if texts, err = f.openTexts(); err != nil {
					return err
				}
				defer texts.close()
			}
			d.key = names.key(row)
			if d.text, err = texts.text(row); err != nil {
				return err
			}
			d.known = d.text != ""
		}
		spread, err := spreads.spread(row)
		if err != nil {
			return err
		}
		if err := d.spread.addSpread(spread); err != nil {
			return err
		}
		var v [numCounts]uint64
		for c := range columns {
			v[c] = columns[c].at(row)
		}
		more := countsFrom(&v)
		d.counts.add(&more)
		if first := int64(firsts.at(row)); first > 0 && (d.first == 0 || start+first-1 < d.first) {
			d.first = start + first - 1
		}
		d.last = max(d.last, start+int64(lasts.at(row)))
	}
	return nil
}

// findPrint is the row of a print, -1 if there is none.
func findPrint(prints []byte, rows int, p keyPrint) int {
	row := sort.Search(rows, func(i int) bool { return keyPrint(prints[16*i:]).compare(p) >= 0 })
	if row < rows && keyPrint(prints[16*row:]) == p {
		return row
	}
	return -1
}
