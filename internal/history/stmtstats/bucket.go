package stmtstats

import (
	"math"
	"time"
)

// The buckets are those of Prometheus' native histograms of schema 5: each power of two of seconds is divided
// into 32 buckets, each 2.2 % wider than the previous one.
const (
	Schema = 5

	PerOctave = 1 << Schema // buckets per power of two

	// FirstOctave is the power of two of seconds at which the first octave starts: 0.95 µs. Shorter durations
	// are counted in the zero bucket. Octave o covers (2^(o-20), 2^(o-19)].
	FirstOctave = -20

	// octaves end at 2^17 seconds, 36 hours. Longer durations are counted in the last bucket.
	octaves = 37

	NumBuckets = octaves * PerOctave

	zeroBucket = -1
)

// ZeroThreshold is the width of the zero bucket in seconds.
const ZeroThreshold = 1.0 / (1 << -FirstOctave)

// bounds are the upper bounds of an octave's buckets as fractions in (0.5, 1], as returned by math.Frexp. The
// lower bound of the first is 0.5.
//
//nolint:gochecknoglobals // a table, computed once
var bounds = func() (b [PerOctave]float64) {
	for i := range b {
		b[i] = math.Exp2(float64(i+1)/PerOctave) / 2
	}
	return b
}()

// cellBits is the number of bits of a fraction that select a cell. A cell is narrower than a bucket, so that
// it contains at most one bound.
const cellBits = 7

// guesses has, for each cell, the bucket of its lowest fraction.
//
//nolint:gochecknoglobals // a table, computed once
var guesses = func() (g [1 << cellBits]uint8) {
	for cell := range g {
		low := 0.5 + float64(cell)/(2<<cellBits)
		for low > bounds[g[cell]] {
			g[cell]++
		}
	}
	return g
}()

// BucketOf returns the bucket of a duration, counted from the first octave's first one, or zeroBucket.
func BucketOf(d time.Duration) int {
	seconds := float64(d) / 1e9
	if seconds <= ZeroThreshold {
		return zeroBucket
	}
	const mantissaBits = 52
	b := math.Float64bits(seconds)
	octave := int(b>>mantissaBits) - 1023 - FirstOctave
	mantissa := b & (1<<mantissaBits - 1)
	if mantissa == 0 { // a power of two is the upper bound of the octave below it
		return min(octave*PerOctave-1, NumBuckets-1)
	}
	sub := int(guesses[mantissa>>(mantissaBits-cellBits)])
	if math.Float64frombits(mantissa|1022<<mantissaBits) > bounds[sub] {
		sub++
	}
	return min(octave*PerOctave+sub, NumBuckets-1)
}

// BoundOf returns a bucket's upper bound in seconds. Its lower bound is that of the previous bucket.
func BoundOf(bucket int) float64 {
	if bucket == zeroBucket {
		return ZeroThreshold
	}
	return math.Ldexp(bounds[bucket%PerOctave], bucket/PerOctave+FirstOctave+1)
}
