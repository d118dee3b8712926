package chart

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// TestScaleMarks has the ends and the marks of axes.
func TestScaleMarks(t *testing.T) {
	for _, c := range []struct {
		name string
		s    Scale
		want string // low, high, marks
	}{
		{"none", LinearScale(0, 0), "0 1 [0 0.25 0.5 0.75 1]"},
		{"ten", LinearScale(2, 10), "0 10 [0 2.5 5 7.5 10]"},
		{"eight", LinearScale(0, 8), "0 8 [0 2 4 6 8]"},
		{"a little more", LinearScale(0, 8.01), "0 10 [0 2.5 5 7.5 10]"},
		{"negative", LinearScale(-3, 5), "-4 6 [-4 -2 0 2 4 6]"},
		{"only negative", LinearScale(-8, -2), "-8 0 [-8 -6 -4 -2 0]"},
		{"bytes", ByteScale(0, 999), "0 1000 [0 250 500 750 1000]"},
		{"KiB", ByteScale(0, 1000), "0 1024 [0 256 512 768 1024]"},
		{"MiB", ByteScale(0, 4<<20), "0 4194304 [0 1048576 2097152 3145728 4194304]"},
		{"negative bytes", ByteScale(-2048, 0), "-2048 0 [-2048 -1536 -1024 -512 0]"},
		{"many bytes", ByteScale(0, 1e18), "0 1099511627776000000 [0 274877906944000000 549755813888000000 824633720832000000 1099511627776000000]"},
		{"powers", LogScale(1, 1000), "1 1000 [1 10 100 1000]"},
		{"one power", LogScale(10, 10), "10 100 [10 100]"},
		{"within a power", LogScale(2, 9), "1 10 [1 10]"},
		{"many powers", LogScale(1, 1e6), "1 1000000 [1 100 10000 1000000]"},
		{"seven powers", LogScale(1, 1e7), "1 100000000 [1 100 10000 1000000 100000000]"},
		{"zero has no logarithm", LogScale(0, 8), "0 8 [0 2 4 6 8]"},
		{"infinity has none", LogScale(1, math.Inf(1)), ""},
	} {
		marks := make([]string, len(c.s.Marks))
		for i, m := range c.s.Marks {
			marks[i] = fmt.Sprint(math.Round(m*100) / 100)
			if m >= 1e6 {
				marks[i] = fmt.Sprintf("%.0f", m)
			}
		}
		number := func(f float64) string {
			if math.Abs(f) >= 1e6 {
				return fmt.Sprintf("%.0f", f)
			}
			return fmt.Sprint(math.Round(f*100)/100 + 0) // no -0
		}
		if got := number(c.s.Low) + " " + number(c.s.High) + " [" + strings.Join(marks, " ") + "]"; c.want != "" && got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	for v, want := range map[float64]float64{0: 1, -1: 1, math.Inf(1): 1, 1: 1, 1.01: 2, 2: 2, 2.1: 2.5, 2.5: 2.5, 2.6: 5, 5: 5, 5.1: 10, 9.9: 10, 10: 10, 0.3: 0.5, 130: 200} {
		if got := roundStep(v); math.Abs(got-want) > 1e-9 {
			t.Errorf("a step of at least %v: %v, want %v", v, got, want)
		}
	}
	linear, log := Scale{Low: -10, High: 10}, Scale{Low: 1, High: 100, Log: true}
	for _, c := range []struct {
		s    Scale
		v    float64
		want float64
	}{{linear, -10, 0}, {linear, 0, 0.5}, {linear, 10, 1}, {linear, 11, 1}, {linear, -11, 0}, {log, 1, 0}, {log, 0, 0}, {log, 10, 0.5}, {log, 100, 1}, {log, 1000, 1}} {
		if got := c.s.At(c.v); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v of %+v: %v, want %v", c.v, c.s, got, c.want)
		}
	}
	for v, want := range map[float64]bool{0: true, 1e200: true, -1e200: true, 1.1e200: false, math.Inf(-1): false} {
		if IsNumber(v) != want {
			t.Errorf("%v is a number: %v", v, !want)
		}
	}
	if low, high := Extent(1, 2, []float64{math.NaN(), 0.5, math.Inf(1), 3}); low != 0.5 || high != 3 {
		t.Errorf("from %v to %v", low, high)
	}
}

// TestScales expects round marks around the values.
func TestScales(t *testing.T) {
	for _, c := range []struct{ low, high float64 }{{0, 0}, {0, 1}, {3, 97}, {-4, 9}, {0, 1e-9}, {0, 1e12}} {
		s := LinearScale(c.low, c.high)
		if s.Low > min(c.low, 0) || s.High < c.high || len(s.Marks) < 2 || len(s.Marks) > 13 {
			t.Errorf("%v to %v: %+v", c.low, c.high, s)
		}
	}
	if s := LogScale(0.002, 0.5); s.Low > 0.0011 || s.High < 0.999 || s.At(0.001) != 0 || math.Abs(s.At(1)-1) > 1e-9 {
		t.Errorf("2 ms to 500 ms: %+v", s)
	}
	if s := LogScale(1e-9, 1e9); len(s.Marks) > 7 {
		t.Errorf("18 powers of ten have %d marks", len(s.Marks))
	}
}

// TestLines draws lines and areas with gaps.
func TestLines(t *testing.T) {
	nan := math.NaN()
	x := []float64{0, 10, 20, 30, 40, 50}
	for _, c := range []struct {
		y          []float64
		line, area string
	}{
		{[]float64{1, 2.505, nan, 4, nan, 6}, "M0 1L10 2.5M28 4h4M48 6h4", "M0 9L0 1L10 2.5L10 9ZM30 9L30 4L30 9ZM50 9L50 6L50 9Z"},
		{[]float64{nan, 1}, "M8 1h4", "M10 9L10 1L10 9Z"},
		{nil, "", ""},
		{[]float64{1, 1, 1, 1, 1, 1, 7}, "M0 1L10 1L20 1L30 1L40 1L50 1", "M0 9L0 1L10 1L20 1L30 1L40 1L50 1L50 9Z"}, // more values than positions
	} {
		var line, area SVG
		line.Line(x, c.y)
		area.Area(x, c.y, 9)
		if line.String() != c.line || area.String() != c.area {
			t.Errorf("%v: %s and %s, want %s and %s", c.y, line.String(), area.String(), c.line, c.area)
		}
	}
}
