// Package latency is a histogram of durations in a fixed number of bytes, for
// measurements whose quantiles matter more than their sum.
//
// Terms: a bucket is a range of durations counted together; the buckets of one power of two are 64 equal
// parts of it, so a quantile differs by at most 1/128 (0.8 %) from a recorded duration.
//
//	Record(d) ── bucket(d)++ ── Quantile(0.99)
//	Merge(other) adds another histogram's counts
//
// It has no time axis and no schedules: an open loop records from the intended start, so that a stalled
// server counts (coordinated omission).
package latency
