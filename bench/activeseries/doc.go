// Package activeseries scans the same response with the decoder of the main module and with well-known JSON
// libraries, on one CPU:
//
//	go test -run '^$' -bench . ./fleet/activeseries
//
// The subjects do different work, which is stated beside their names: Tare's decoder validates JSON, UTF-8
// and the shape, and returns items; the others validate JSON, or build an index of it.
package activeseries
