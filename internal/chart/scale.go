package chart

import "math"

// A Scale maps values to 0 at the bottom and 1 at the top, with evenly spaced marks.
type Scale struct {
	Low, High float64
	Log       bool      // logarithmic
	Marks     []float64 // ascending
}

// LinearScale returns a scale from 0 to a round number above all values; negative values extend it.
func LinearScale(low, high float64) Scale {
	low, high = min(low, 0), max(high, 0)
	if low == 0 && high == 0 {
		high = 1
	}
	step := roundStep((high - low) / 4)
	low, high = math.Floor(low/step)*step, math.Ceil(high/step-1e-9)*step
	s := Scale{Low: low, High: high}
	for i := 0; ; i++ {
		v := low + float64(i)*step
		if v > high+step/2 || i > 12 {
			return s
		}
		s.Marks = append(s.Marks, v)
	}
}

// ByteScale returns a LinearScale whose marks are round in the unit in which they are formatted.
func ByteScale(low, high float64) Scale {
	size := 1.0
	for size < 1<<40 && max(high, -low) >= size*1000 {
		size *= 1 << 10
	}
	s := LinearScale(low/size, high/size)
	s.Low, s.High = s.Low*size, s.High*size
	for i := range s.Marks {
		s.Marks[i] *= size
	}
	return s
}

// roundStep returns the least of 1, 2, 2.5 and 5 times a power of ten that is not less than v.
func roundStep(v float64) float64 {
	if !(v > 0) || math.IsInf(v, 0) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 2.5, 5, 10} {
		if f*power >= v*(1-1e-9) {
			return f * power
		}
	}
	return 10 * power
}

// LogScale returns a scale of whole powers of ten around positive values.
func LogScale(low, high float64) Scale {
	if !(low > 0) || !(high > 0) || math.IsInf(low, 0) || math.IsInf(high, 0) {
		return LinearScale(low, high)
	}
	first, last := math.Floor(math.Log10(low)+1e-9), math.Ceil(math.Log10(high)-1e-9)
	if last <= first {
		last = first + 1
	}
	every := math.Ceil((last - first) / 5)
	last = first + math.Ceil((last-first)/every)*every
	s := Scale{Low: math.Pow(10, first), High: math.Pow(10, last), Log: true}
	for e := first; e <= last; e += every {
		s.Marks = append(s.Marks, math.Pow(10, e))
	}
	return s
}

// At returns the position of a value, limited to the scale.
func (s Scale) At(v float64) float64 {
	low, high := s.Low, s.High
	if s.Log {
		if v <= low {
			return 0
		}
		v, low, high = math.Log(v), math.Log(low), math.Log(high)
	}
	return min(max((v-low)/(high-low), 0), 1)
}

// Extent returns the least and the greatest of low, high and the values that are numbers.
func Extent(low, high float64, values []float64) (float64, float64) {
	for _, v := range values {
		if IsNumber(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	return low, high
}

// IsNumber reports whether a value can be drawn. Beyond 1e200 arithmetic on a scale would overflow.
func IsNumber(v float64) bool { return math.Abs(v) <= 1e200 }
