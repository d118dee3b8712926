package statements

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"runtime"
	"slices"
	"sort"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/parallel"
)

// Bytes of files that a ranking has in memory, divided among their columns, at least a page of each. In
// addition it has the candidate rows, and an array of buckets.
const (
	rankBytes       = 16 << 20
	remoteRankBytes = 64 << 20 // if some are in the bucket
)

// maxWindow is the maximum read at once of a column, unless it is in the bucket.
const maxWindow = 64 << 10

// halvedRows is the minimum number of rows of which two halves are ranked concurrently.
const halvedRows = 64 << 10

// A ranking finds the rows with the highest values of a measure. It merges all files in the order of their
// prints: the state of a Key is dropped when the next one starts.
type ranking struct {
	query    *TopQuery
	filter   filter
	halved   int    // minimum number of rows that are ranked in two halves
	from, to uint64 // of a half: the first 8 bytes of its prints, both inclusive
	unzipper rollup.TextDecoder
	tail     stmtstats.Tail

	rows     []rankedPrint // candidates to be shown, and some more
	matching int
}

// A rankedPrint is a candidate row of rollups.
type rankedPrint struct {
	ranked
	print rollup.Print
}

// A rankedFile is a cursor over the rows of a file.
type rankedFile struct {
	open   *openFile
	number int // of the file; the newest is 0

	from, to  uint64 // bounds of high
	first     int    // row
	row, end  int
	high, low uint64 // the print of the row
	prints    rollup.ColumnReader
	columns   []rollup.ColumnReader
	spreads   rollup.SpreadReader // with ByP99
	names     *rollup.KeyReader   // with a filter
	texts     *rollup.TextReader  // with a filter that has words
}

// release releases the memory of the cursor's readers.
func (f *rankedFile) release() {
	f.prints.Release()
	for i := range f.columns {
		f.columns[i].Release()
	}
	f.spreads.Release()
	if f.names != nil {
		f.names.Release()
	}
	if f.texts != nil {
		f.texts.Release()
	}
}

// before is the order in which rows are visited.
func (f *rankedFile) before(o *rankedFile) bool {
	if f.high != o.high {
		return f.high < o.high
	}
	return f.low < o.low || f.low == o.low && f.number < o.number
}

// rowAt returns the number of the first row whose print starts with high or more.
func (f *openFile) rowAt(high uint64) (int, error) {
	var err error
	prints := f.Column(rollup.ColPrints, rollup.PageBytes)
	return sort.Search(f.NumRows, func(row int) bool {
		var b []byte
		if err == nil {
			b, err = prints.Bytes(16*int64(row), 8)
		}
		return err != nil || binary.BigEndian.Uint64(b) >= high
	}), err
}

// openCursor returns a cursor at the first row of a file.
func (r *ranking) openCursor(open *openFile, number int, window int64) (*rankedFile, error) {
	f := &rankedFile{open: open, number: number, from: r.from, to: r.to, end: open.NumRows, prints: open.Column(rollup.ColPrints, window)}
	var err error
	if r.from > 0 {
		if f.first, err = open.rowAt(r.from); err != nil {
			return nil, err
		}
	}
	if r.to < math.MaxUint64 {
		if f.end, err = open.rowAt(r.to + 1); err != nil {
			return nil, err
		}
	}
	f.row = f.first - 1
	of := &measures[r.query.By]
	for c := of.column; c < of.column+of.columns; c++ {
		if open.IsZero(c) && r.query.By == ByErrors {
			continue // no errors of this class
		}
		reader, err := open.Numbers(c, window)
		if err != nil {
			return nil, err
		}
		f.columns = append(f.columns, reader)
	}
	if r.query.By == ByP99 {
		if f.spreads, err = open.Spreads(window); err != nil {
			return nil, err
		}
	}
	if !r.filter.conditions.Empty() {
		if f.names, err = open.Keys(window); err != nil {
			return nil, err
		}
		if r.filter.wantText {
			f.texts, err = open.Texts(&r.unzipper, window)
		}
	}
	return f, err
}

// next advances to the next row, and reports whether there is one.
func (f *rankedFile) next() (bool, error) {
	if f.row++; f.row >= f.end {
		return false, nil
	}
	b, err := f.prints.Bytes(16*int64(f.row), 16)
	if err != nil {
		return false, err
	}
	high, low := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	if f.row > f.first && (high < f.high || high == f.high && low <= f.low) || high < f.from || high > f.to {
		return false, rollup.FormatErrorf("rows %d and %d are not in order", f.row-1, f.row)
	}
	f.high, f.low = high, low
	return true, nil
}

// window returns the bytes to read at once of each column of the files in each half.
func (r *ranking) window(files []*openFile, halves int) int64 {
	bytes, most := rankBytes, int64(maxWindow)
	if slices.ContainsFunc(files, func(f *openFile) bool { return f.Remote }) {
		bytes, most = remoteRankBytes, rollup.RemoteWindow
	}
	columns := 1 + measures[r.query.By].columns
	if r.query.By == ByP99 {
		columns += 2
	}
	if !r.filter.conditions.Empty() {
		columns += 4
	}
	if r.filter.wantText {
		columns += 4
	}
	window := int64(bytes / max(len(files)*columns*halves, 1) / rollup.PageBytes * rollup.PageBytes)
	return min(max(window, rollup.PageBytes), most)
}

// run ranks all rows. Many are ranked in two halves, concurrently if there are two CPUs.
func (r *ranking) run(ctx context.Context, open []*openFile) error {
	rows := 0
	for _, f := range open {
		rows += f.NumRows
	}
	halves := []*ranking{{to: math.MaxUint64}}
	if rows >= r.halved && runtime.GOMAXPROCS(0) > 1 {
		halves = []*ranking{{to: math.MaxInt64}, {from: math.MaxInt64 + 1, to: math.MaxUint64}}
	}
	window := r.window(open, len(halves))
	err := parallel.ForEach(ctx, len(halves), halves, func(ctx context.Context, half *ranking) error {
		half.query, half.filter = r.query, r.filter
		defer half.unzipper.Close()
		return half.rank(ctx, open, window)
	})
	for _, half := range halves {
		r.rows, r.matching = append(r.rows, half.rows...), r.matching+half.matching
	}
	r.prune(0)
	return err
}

// rank visits the rows of a half.
func (r *ranking) rank(ctx context.Context, open []*openFile, window int64) error {
	files := make([]*rankedFile, 0, len(open)) // in the order of before
	all := make([]*rankedFile, 0, len(open))
	defer func() {
		for _, f := range all {
			f.release()
		}
	}()
	for i, o := range open {
		f, err := r.openCursor(o, i, window)
		more := false
		if f != nil {
			all = append(all, f)
		}
		if err == nil {
			more, err = f.next()
		}
		if err != nil {
			return o.failed(err)
		}
		if more {
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b *rankedFile) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	for n := 1; len(files) > 0; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		same := 1 // number of files whose rows are of one Key
		for same < len(files) && files[same].high == files[0].high && files[same].low == files[0].low {
			same++
		}
		if err := r.visit(files[:same]); err != nil {
			return err
		}
		// Usually all files have all Keys, and their order stays the same.
		for i := same - 1; i >= 0; i-- {
			f := files[i]
			more, err := f.next()
			switch {
			case err != nil:
				return f.open.failed(err)
			case !more:
				files = slices.Delete(files, i, i+1)
			case i+1 < len(files) && files[i+1].before(f):
				behind := files[i+1:]
				n := sort.Search(len(behind), func(n int) bool { return !behind[n].before(f) })
				copy(files[i:], behind[:n])
				files[i+n] = f
			}
		}
	}
	r.prune(0)
	return nil
}

// visit ranks the rows of one Key, those of the newest file first.
func (r *ranking) visit(rows []*rankedFile) error {
	var key rollup.Print
	binary.BigEndian.PutUint64(key[:], rows[0].high)
	binary.BigEndian.PutUint64(key[8:], rows[0].low)
	if key.IsSum() {
		return nil
	}
	if !r.filter.conditions.Empty() {
		if wanted, err := r.wanted(rows); err != nil || !wanted {
			return err
		}
	}
	value, err := r.value(rows)
	if err != nil {
		return err
	}
	r.matching++
	r.rows = append(r.rows, rankedPrint{ranked{value: value, id: rows[0].high}, key})
	r.prune(1024)
	return nil
}

// prune drops candidates that cannot be shown, if there are many.
func (r *ranking) prune(spare int) {
	shown := r.query.Offset + r.query.Limit
	if len(r.rows) <= 2*shown+spare && spare > 0 {
		return
	}
	order := r.query.order()
	shown = min(shown, len(r.rows))
	selectFirst(r.rows, shown, func(a, b rankedPrint) int { return cmp.Or(order(a.ranked, b.ranked), a.print.Compare(b.print)) })
	r.rows = r.rows[:shown]
}

// shown returns the rows to show, in order.
func (r *ranking) shown() []rankedPrint { return r.rows[min(r.query.Offset, len(r.rows)):] }

// wanted reports whether the filter selects a Key.
func (r *ranking) wanted(rows []*rankedFile) (bool, error) {
	k, err := rows[0].names.Key(rows[0].row)
	if err != nil {
		return false, rows[0].open.failed(err)
	}
	var text []byte
	for _, f := range rows {
		if f.texts == nil || len(text) > 0 {
			break
		}
		if text, err = f.texts.Text(f.row); err != nil {
			return false, f.open.failed(err)
		}
	}
	return r.filter.matches(&k, string(text)), nil
}

// value returns the measure over all rows of a Key.
func (r *ranking) value(rows []*rankedFile) (float64, error) {
	var sums [2]uint64
	for _, f := range rows {
		for i := range f.columns {
			n, err := f.columns[i].Number(f.row)
			if err != nil {
				return 0, f.open.failed(err)
			}
			switch r.query.By {
			case ByMean:
				sums[i] += n
			case ByFirstSeen:
				if first := uint64(f.open.Start.UnixMilli()) + n; n > 0 && (sums[0] == 0 || first < sums[0]) {
					sums[0] = first
				}
			default:
				sums[0] += n
			}
		}
	}
	switch r.query.By {
	case ByMean:
		return float64(sums[1]) / float64(max(sums[0], 1)), nil
	case ByP99:
		return r.p99(rows, sums[0])
	}
	return float64(sums[0]), nil
}

// p99 returns the bucket of the quantile over a number of calls.
func (r *ranking) p99(rows []*rankedFile, calls uint64) (float64, error) {
	r.tail.Begin(0.99, calls)
	for _, days := range [...]bool{true, false} { // rows with many calls first, which leaves less to read of the others
		for _, f := range rows {
			if (f.open.Span == rollup.Day) != days {
				continue
			}
			spread, err := f.spreads.Spread(f.row)
			if err == nil {
				err = r.tail.Add(spread)
			}
			if err != nil {
				return 0, f.open.failed(err)
			}
		}
	}
	return float64(r.tail.Bucket()), nil
}
