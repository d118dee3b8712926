package quantity

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Digits formats v, at least 0, with three digits, or as a whole number: 0.12, 12.3, 1234.
func Digits(v float64) string {
	switch {
	case v < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// Grouped puts commas between the thousands of a whole number.
func Grouped(whole string) string {
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return sign + whole
}

// Count formats n in groups of three digits.
func Count(n uint64) string { return Grouped(strconv.FormatUint(n, 10)) }

// Of returns n and a noun in singular or plural: 1 chunk, 2 chunks.
func Of[T int | int64 | uint64](n T, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Duration formats d, at least 0, with three digits and a unit.
func Duration(d time.Duration) string {
	switch {
	case d < time.Microsecond:
		return strconv.Itoa(int(d)) + " ns"
	case d < time.Millisecond:
		return Digits(float64(d)/float64(time.Microsecond)) + " µs"
	case d < time.Second:
		return Digits(float64(d)/float64(time.Millisecond)) + " ms"
	}
	return Digits(d.Seconds()) + " s"
}
