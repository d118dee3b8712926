// Package latency is a histogram of durations in a fixed number of bytes, for
// measurements whose quantiles matter more than their sum.
//
// Terms: a bucket is a range of durations counted together; the buckets of one power of
// two are 64 equal parts of it, so a quantile is at most 1/128 (0.8 %) away from a
// duration that was really recorded.
//
//	Record(d) ── bucket(d)++ ── Quantile(0.99)
//	Merge(other) adds another histogram's counts
//
// It keeps no time axis and knows nothing of schedules: whoever measures an open loop
// records from the intended start, so that a stalled server is not forgiven (coordinated
// omission).
package latency
