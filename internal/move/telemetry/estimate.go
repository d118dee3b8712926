package telemetry

import (
	"bytes"
	"math"
	"strconv"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// An Estimate derives how many rows of a table are copied in all from the chunks that are: from their rows, and from the part of the table's keys that they
// have. It is for one goroutine at a time. The zero Estimate knows nothing.
//
// Each chunk after the first is a sample of rows per key range. Their ratio, and its standard error, are those of the ratio estimator of sampling
// theory: they hold as far as the remaining rows are spread over their keys as the copied ones are.
type Estimate struct {
	column int // of the key, the first in which the first boundary and the last key differ
	kind   scale
	prefix []byte
	from   float64 // position of the first boundary
	width  float64 // of all keys after it; 0: unknown

	begun   bool    // the first chunk is copied
	first   int64   // its rows
	chunks  float64 // after the first
	rows    float64 // theirs
	share   float64 // of the width, theirs
	squares [3]float64
}

// A scale is how a value is a number.
type scale uint8

const (
	noScale scale = iota
	numbers
	times
	binary
	text
)

// scaleOf returns the scale of a column.
func scaleOf(c *rowstream.Column) scale {
	switch c.Type {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "year", "decimal", "double", "float", "bit":
		return numbers
	case "date", "datetime", "timestamp":
		return times
	case "binary", "varbinary":
		return binary
	case "char", "varchar", "uuid":
		return text
	}
	return noScale
}

// Begin starts an estimate of the rows of a table whose first chunk ends with the key upto. last is the table's last key.
func (e *Estimate) Begin(t *rowstream.Table, upto, last mysqlwire.TextRow) {
	*e = Estimate{}
	if len(upto) != len(t.Key) || len(last) != len(t.Key) {
		return
	}
	for e.column < len(t.Key)-1 && bytes.Equal(upto[e.column], last[e.column]) {
		e.column++
	}
	e.kind = scaleOf(&t.Columns[t.Key[e.column]])
	for i := 0; i < min(len(upto[e.column]), len(last[e.column])) && upto[e.column][i] == last[e.column][i]; i++ {
		e.prefix = append(e.prefix, upto[e.column][i])
	}
	from, ok := e.position(upto)
	to, known := e.position(last)
	if ok && known && from != to {
		e.from, e.width = from, to-from
	}
}

// position returns a key as a number, in the order of the keys.
func (e *Estimate) position(key mysqlwire.TextRow) (float64, bool) {
	v := key[e.column]
	switch e.kind {
	case numbers:
		n, err := strconv.ParseFloat(string(v), 64)
		return n, err == nil
	case times:
		for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02"} {
			if t, err := time.Parse(layout, string(v)); err == nil {
				return float64(t.Unix()), true
			}
		}
		return 0, false
	case binary:
		return fraction(bytes.TrimPrefix(v, e.prefix), 256, func(b byte) float64 { return float64(b) }), true
	case text:
		return fraction(bytes.TrimPrefix(v, e.prefix), 37, digit), true
	}
	return 0, false
}

// fraction returns the first bytes as the digits of a fraction.
func fraction(v []byte, base float64, digit func(byte) float64) (f float64) {
	each := 1 / base
	for _, b := range v[:min(len(v), 10)] {
		f += digit(b) * each
		each /= base
	}
	return f
}

// digit returns a character of a text as a digit, so that numbers, hexadecimal ones and words are spread without gaps.
func digit(b byte) float64 {
	switch {
	case b < '0':
		return 0
	case b <= '9':
		return float64(b-'0') + 1
	case b < 'A':
		return 10
	}
	return float64(min((b|0x20)-'a', 25)) + 11
}

// Add adds a chunk that is copied.
func (e *Estimate) Add(c rowstream.Chunk, rows int64) {
	if c.Number == 0 || c.After == nil {
		e.first, e.begun = rows, true
		return
	}
	from, ok := e.position(c.After)
	to, known := e.from+e.width, true
	if c.Upto != nil {
		to, known = e.position(c.Upto)
	}
	if e.width == 0 || !ok || !known {
		e.width = 0
		return
	}
	r, w := float64(rows), (to-from)/e.width
	e.chunks, e.rows, e.share = e.chunks+1, e.rows+r, e.share+w
	for i, square := range []float64{r * r, r * w, w * w} {
		e.squares[i] += square
	}
}

// Total returns the number of rows, and half of the width of the interval that has it with a probability of about 95 %. It returns false if that is unknown,
// because less than three chunks are copied or keys of the type are no numbers.
func (e *Estimate) Total() (rows, deviation int64, ok bool) {
	if !e.begun || e.width == 0 || e.chunks < 2 || e.share <= 0 {
		return 0, 0, false
	}
	left := max(0, 1-e.share)
	ratio := e.rows / e.share
	variance := max(0, e.squares[0]-2*ratio*e.squares[1]+ratio*ratio*e.squares[2]) / (e.chunks - 1) // of a chunk's rows beside the ratio
	remaining := left * e.chunks / e.share                                                          // chunks
	// The ratio is itself estimated, and each remaining chunk deviates from it.
	sd := math.Sqrt(variance * (remaining*remaining/e.chunks + remaining))
	total := float64(e.first) + e.rows + ratio*left
	if total > math.MaxInt64/4 || math.IsNaN(total) || math.IsNaN(sd) {
		return 0, 0, false
	}
	return int64(total), int64(math.Ceil(2 * min(sd, math.MaxInt64/8))), true
}

// Count returns the progress of a table of which a number of rows is copied.
func (e *Estimate) Count(rows int64, t *rowstream.Table) TableCount {
	c := TableCount{Rows: rows, Estimate: t.RowsEstimate}
	if total, deviation, ok := e.Total(); ok {
		c.Estimate, c.Deviation, c.Sampled = max(rows, total), deviation, true
	}
	return c
}
