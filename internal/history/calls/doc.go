// Package calls keeps a sample of the calls of statements in fixed memory, and finds the properties by which
// two sets of calls differ. Beside the sample, a TagCounts counts all calls by the values of some sqlcommenter tags.
//
// # Usage
//
//	sample, err := calls.New(calls.Options{Bytes: calls.DefaultBytes})
//	gateway.Options{Observers: []gateway.Observer{sample}}
//	before, within := sample.Of(digest, from, rise), sample.Of(digest, rise, to)
//	differences := calls.Compare(before, within)
//
// # The sample
//
// Time is divided into intervals of 15 s, and an interval into 32 strata by the digest of the statement, so
// that frequent statements do not displace rare ones. Each stratum has a reservoir of 8 calls: each call of
// the interval is in it with the same probability (Vitter's algorithm R). The weight of a call in the sample
// is the number of calls of its stratum per call kept.
//
// The memory is allocated by New and has no pointers. Observe mostly increments one counter of a stratum; it takes the
// stratum's lock when a call enters the sample, which becomes rarer with each call of an interval.
//
// # Limits
//
// The sample has no bind values and no text. Values of sqlcommenter tags are truncated, and the last tags
// omitted, if names and tags of a call exceed 184 bytes.
package calls
