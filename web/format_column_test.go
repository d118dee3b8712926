package web

import (
	"math"
	"strings"
	"testing"
)

func TestColumns(t *testing.T) {
	for _, c := range []struct {
		kind   func([]float64) column
		values []float64
		want   string
	}{
		{rateColumn, []float64{12345.678, 0.25, 0}, "12,345.68 /s|0.25 /s|0.00 /s"},
		{rateColumn, []float64{12345.678, 25, 9e-7}, "12,345.678 /s|25.000 /s|< 0.001 /s"},
		{rateColumn, []float64{12345.678, 250}, "12,346 /s|250 /s"},
		{rateColumn, []float64{1234.5, 25, math.NaN()}, "1,234.5 /s|25.0 /s|–"},
		{rateColumn, nil, ""},
		{rateColumn, []float64{0}, "0 /s"},
		{durationColumn, []float64{12.5, 0.0002, 0.03}, "12,500.00 ms|0.20 ms|30.00 ms"},
		{durationColumn, []float64{0.0125, 0.002}, "12.50 ms|2.00 ms"},
		{durationColumn, []float64{0.0000125, 0.0002}, "12.5 µs|200.0 µs"},
		{durationColumn, []float64{12.5, 2}, "12.50 s|2.00 s"},
		{loadColumn, []float64{12.5, 2}, "12.50|2.00"},
		{loadColumn, []float64{120, 200}, "120.00|200.00"},
	} {
		column := c.kind(c.values)
		var got []string
		for _, v := range c.values {
			got = append(got, column.write(v))
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("%v: %s, want %s", c.values, strings.Join(got, "|"), c.want)
		}
	}
}
