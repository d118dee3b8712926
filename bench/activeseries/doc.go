// Package activeseries scans the same answer with the decoder of the main module and with the
// known libraries for JSON, on one processor:
//
//	go test -run '^$' -bench . ./activeseries
//
// What each does with the bytes differs, and is said beside its name: ours checks all of JSON
// and UTF-8 and the shape and hands items out; others check JSON, or build an index of it.
package activeseries
