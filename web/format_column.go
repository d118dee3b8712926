package web

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/quantity"
)

// A column writes the numbers of a table's column alike: in one unit, with as many digits after the point.
type column struct {
	unit   string
	factor float64 // of a number, to the unit
	digits int
}

// maxDigits is how many digits after the point a column has at most.
const maxDigits = 3

// newColumn returns the column of a unit in which the smallest of values that is not 0 has two significant digits, if
// maxDigits suffice.
func newColumn(unit string, factor float64, values []float64) column {
	c := column{unit: unit, factor: factor}
	least := math.Inf(1)
	for _, v := range values {
		if v = math.Abs(v * factor); v > 0 {
			least = min(least, v)
		}
	}
	switch {
	case least >= 99.5: // or none
	case least >= 9.95:
		c.digits = 1
	case least >= 0.0995:
		c.digits = 2
	default:
		c.digits = maxDigits
	}
	return c
}

// write writes a number of the column.
func (c column) write(v float64) string {
	if !isNumber(v) {
		return nothing
	}
	v *= c.factor
	if least := math.Pow10(-c.digits); v > 0 && v < least/2 {
		return "< " + strconv.FormatFloat(least, 'f', c.digits, 64) + c.unit
	}
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(v, 'f', c.digits, 64), ".")
	if fraction != "" {
		fraction = "." + fraction
	}
	return quantity.Grouped(whole) + fraction + c.unit
}

// rateColumn writes numbers per second.
func rateColumn(values []float64) column { return newColumn(" /s", 1, values) }

// loadColumn writes loads.
func loadColumn(values []float64) column {
	c := newColumn("", 1, values)
	c.digits = max(c.digits, 2)
	return c
}

// durationColumn writes durations in seconds: as milliseconds, or as microseconds or seconds where all of them are short or long.
func durationColumn(values []float64) column {
	least, most := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 {
			least, most = min(least, v), max(most, v)
		}
	}
	switch {
	case most < 1e-3:
		return newColumn(" µs", 1e6, values)
	case least >= 1 && most > 0:
		return newColumn(" s", 1, values)
	}
	return newColumn(" ms", 1e3, values)
}

// writeDuration writes a duration of the column; 0 is one that is not known.
func (c column) writeDuration(d time.Duration) string {
	if d == 0 {
		return nothing
	}
	return c.write(d.Seconds())
}
