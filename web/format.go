package web

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/quantity"
)

// A unit is the format of a number.
type unit uint8

// Units of the values on pages.
const (
	unitCount    unit = iota // 1,234
	unitRate                 // 1,234 /s
	unitSeconds              // 12.3 ms
	unitBytes                // 1.2 MiB
	unitByteRate             // 1.2 MiB/s
	unitPercent              // 12.3 %, of a fraction
	unitLoad                 // 0.25 active: seconds spent in a second
	unitActive               // 0.25: the same in a column named Load
)

// noValue is displayed for missing numbers.
const noValue = "–"

// write formats a number with its unit.
func (u unit) write(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return noValue
	}
	switch u {
	case unitRate:
		return short(v) + " /s"
	case unitSeconds:
		return seconds(v)
	case unitBytes:
		return bytesText(v)
	case unitByteRate:
		return bytesText(v) + "/s"
	case unitPercent:
		return percent(v)
	case unitLoad:
		return loadText(v) + " active"
	case unitActive:
		return loadText(v)
	}
	return short(v)
}

// loadText formats a load: the average number of concurrent calls.
func loadText(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a < 0.005:
		return "< 0.01"
	case a < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return short(v)
}

// name returns the quantity that a unit measures, for table headers and descriptions.
func (u unit) name() string {
	return [...]string{"count", "per second", "seconds", "bytes", "bytes per second", "share", "calls running on average", "calls running on average"}[u]
}

// short formats a number with about three digits: 0.12, 12.3, 1,234, 45.6 k, 7.89 M.
func short(v float64) string {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return noValue
	case a == 0:
		return "0"
	case a < 0.001:
		return strconv.FormatFloat(v, 'g', 2, 64)
	case a < 0.9995:
		return trim(strconv.FormatFloat(v, 'f', 3, 64))
	case a < 9.995:
		return trim(strconv.FormatFloat(v, 'f', 2, 64))
	case a < 99.95:
		return trim(strconv.FormatFloat(v, 'f', 1, 64))
	case a < 9999.5:
		return quantity.Grouped(strconv.FormatFloat(v, 'f', 0, 64))
	}
	for _, s := range []struct {
		factor float64
		name   string
	}{{1e3, "k"}, {1e6, "M"}, {1e9, "G"}, {1e12, "T"}} {
		if a < s.factor*999.5 {
			return digits3(v/s.factor) + " " + s.name
		}
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// digits3 formats a number below 1,000 with three significant digits.
func digits3(v float64) string {
	switch a := math.Abs(v); {
	case a < 9.995:
		return trim(strconv.FormatFloat(v, 'f', 2, 64))
	case a < 99.95:
		return trim(strconv.FormatFloat(v, 'f', 1, 64))
	}
	return quantity.Grouped(strconv.FormatFloat(v, 'f', 0, 64))
}

// trim removes trailing zeros of a fraction.
func trim(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// count formats an integer in full.
func count(n uint64) string { return quantity.Count(n) }

// many formats a number of things: 1 row, 1,234 rows. The plural of the noun has an s.
func many[T int | uint64](n T, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return count(uint64(n)) + " " + noun
}

// about is many with about three digits: 1 row, 12.3 k rows.
func about(n float64, noun string) string {
	text := short(n)
	if text != "1" {
		noun += "s"
	}
	return text + " " + noun
}

// callsText formats a number of calls.
func callsText(n uint64) string { return many(n, "call") }

// manyText is many for templates.
func manyText(n any, noun string) string { return many(uint64(float(n)), noun) }

// seconds formats a duration in seconds.
func seconds(s float64) string {
	a := math.Abs(s)
	switch {
	case math.IsNaN(s) || math.IsInf(s, 0):
		return noValue
	case a == 0:
		return "0 s"
	case a < 999.5e-9:
		return digits3(s*1e9) + " ns"
	case a < 999.5e-6:
		return digits3(s*1e6) + " µs"
	case a < 999.5e-3:
		return digits3(s*1e3) + " ms"
	case a < 119.5:
		return digits3(s) + " s"
	case a < 119.5*60:
		return digits3(s/60) + " min"
	case a < 47.5*3600:
		return digits3(s/3600) + " h"
	}
	return short(s/86400) + " d"
}

// duration formats a duration; 0 is an unknown one.
func duration(d time.Duration) string {
	if d == 0 {
		return noValue
	}
	return seconds(d.Seconds())
}

// bytesText formats a number of bytes.
func bytesText(b float64) string {
	a := math.Abs(b)
	switch {
	case math.IsNaN(b) || math.IsInf(b, 0):
		return noValue
	case a < 999.5:
		return digits3(math.Round(b)) + " B"
	case a < 999.5*(1<<10):
		return digits3(b/(1<<10)) + " KiB"
	case a < 999.5*(1<<20):
		return digits3(b/(1<<20)) + " MiB"
	case a < 999.5*(1<<30):
		return digits3(b/(1<<30)) + " GiB"
	}
	return short(b/(1<<40)) + " TiB"
}

// percent formats a fraction.
func percent(f float64) string {
	a := math.Abs(f)
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return noValue
	case a == 0:
		return "0 %"
	case a < 0.0005:
		return "< 0.1 %"
	case a < 0.0995:
		return trim(strconv.FormatFloat(f*100, 'f', 1, 64)) + " %"
	}
	return short(math.Round(f*100)) + " %"
}

// ago formats the time between t and now.
func ago(t, now time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return noValue
	case d < 2*time.Second:
		return "now"
	default:
		return seconds(d.Truncate(time.Second).Seconds()) + " ago"
	}
}

// float converts a number to the type that units format.
func float(n any) float64 {
	switch n := n.(type) {
	case int:
		return float64(n)
	case int64:
		return float64(n)
	case uint64:
		return float64(n)
	case float64:
		return n
	case *int64:
		return float64(*n)
	case int32:
		return float64(n)
	case uint32:
		return float64(n)
	}
	panic(fmt.Sprintf("BUG: %T is no number that is shown", n))
}

// ratio returns part divided by whole, or 0 if whole is not positive.
func ratio(part, whole any) float64 {
	if w := float(whole); w > 0 {
		return float(part) / w
	}
	return 0
}
