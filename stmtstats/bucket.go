package stmtstats

import (
	"math"
	"time"
)

// The buckets are those of Prometheus' native histograms of schema 5: each power of two of
// seconds is divided into 32 buckets, each 2.2 % wider than the one below it.
const (
	Schema = 5

	PerOctave = 1 << Schema // buckets

	// FirstOctave is the power of two of seconds where the first octave begins: 0.95 µs,
	// and what took less goes to the zero bucket. Octave o covers (2^(o-20), 2^(o-19)].
	FirstOctave = -20

	// octaves ends them at 2^17 seconds, 36 hours; what took longer is counted as that long.
	octaves = 37

	NumBuckets = octaves * PerOctave

	zeroBucket = -1
)

// ZeroThreshold is the width of the zero bucket in seconds.
const ZeroThreshold = 1.0 / (1 << -FirstOctave)

// bounds are the upper bounds of an octave's buckets as fractions in (0.5, 1], the way
// math.Frexp has them; the lower bound of the first is 0.5.
//
//nolint:gochecknoglobals // a table, computed once
var bounds = func() (b [PerOctave]float64) {
	for i := range b {
		b[i] = math.Exp2(float64(i+1)/PerOctave) / 2
	}
	return b
}()

// cellBits is how many bits of a fraction choose the cell that guesses its bucket: a cell is
// less wide than a bucket, so that there is at most one bound in it.
const cellBits = 7

// guesses is, for each cell, the bucket in which its lowest fraction is.
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

// BucketOf is the bucket of a duration, counted from the first octave's first, or zeroBucket.
func BucketOf(d time.Duration) int {
	seconds := float64(d) / 1e9
	if seconds <= ZeroThreshold {
		return zeroBucket
	}
	const mantissaBits = 52
	b := math.Float64bits(seconds)
	octave := int(b>>mantissaBits) - 1023 - FirstOctave
	mantissa := b & (1<<mantissaBits - 1)
	if mantissa == 0 { // a power of two is the end of the octave below it
		return min(octave*PerOctave-1, NumBuckets-1)
	}
	sub := int(guesses[mantissa>>(mantissaBits-cellBits)])
	if math.Float64frombits(mantissa|1022<<mantissaBits) > bounds[sub] {
		sub++
	}
	return min(octave*PerOctave+sub, NumBuckets-1)
}

// BoundOf is a bucket's upper bound in seconds; that of the bucket before it is its lower one.
func BoundOf(bucket int) float64 {
	if bucket == zeroBucket {
		return ZeroThreshold
	}
	return math.Ldexp(bounds[bucket%PerOctave], bucket/PerOctave+FirstOctave+1)
}
