// Package activeseries tracks which series are active, and merges the responses of many shards that list
// active series, validating every byte without copying or allocating per series.
//
// Merge responses with a [Merger]:
//
//	m := activeseries.NewMerger(activeseries.MergerOptions{Workers: runtime.GOMAXPROCS(0)})
//	body := m.Merge(sources, activeseries.Request{Unique: true, UniqueBytes: 64 << 20})
//	defer body.Close()
//	_, err := body.WriteTo(w)
//
// Track active series with a [Tracker], whose sweeps expire idle series:
//
//	if !tracker.Update(key, now) {
//		err = tracker.Add(key, now, matchers)
//	}
//
// # Terms
//
//   - An item is a series in a response: a JSON object of label names and values.
//   - A body is the response of one shard; a source provides it.
//   - A decoder validates a body and returns its items. Scanner is the strict decoder; Plain is its reference
//     based on encoding/json, which accepts the same bodies.
//   - A series is live if it got a sample within the idle time.
//
// # Data flow
//
//	body ──► window ──► items: views of the window ──► Body.WriteTo ──► the client
//	           ▲   │            │
//	           │   │            ├── hashes ──► those not seen before    (Request.Unique)
//	           │   │            └── values ──► counts                   (Request.CountBy)
//	           └───┘ the item that the end of the window splits
//
//	sample ──► Tracker.Update ──► one word of a table ◄── Tracker.Sweep
//
// Bodies are read by as many goroutines as there are workers, not as there are bodies: the others wait in the
// buffers of their connections. The goroutine that has read items writes them, under one lock; there is no
// channel, no pipe, and no copy between the window and the writer. A slow client therefore throttles all
// shards.
//
// # Costs
//
// A strict decoder takes 64 KiB, more only during a longer item, and does not allocate per item.
// Request.UniqueBytes and Request.CountBytes bound deduplication and counting. A Tracker takes 19 to 32 bytes per
// series.
//
// # Accepted bodies
//
// A body is one JSON text according to RFC 8259 in UTF-8 without byte order mark: an object with at most one
// member "data", which is an array of objects whose values are all strings, or null for no items. Other
// members, before or after it, may be arbitrary. This is what encoding/json.Valid accepts, without
//
//   - invalid UTF-8, which Valid accepts;
//   - a second "data", and bodies without one, unless they report an error;
//   - data of another shape;
//   - items, and strings and numbers beside the items, of more than maxItem bytes.
//
// Names are compared byte for byte after unescaping: "DATA" is another member, "d\u0061ta" is not. Escapes of
// lone surrogates are accepted; nesting is limited as in encoding/json. An item may have a label twice.
//
// A body reports an error with a member "error" that is a nonempty string, or neither a string nor null, or
// with a member "status" of value "error". Its items are returned before the error.
//
// A body may say that it is incomplete: see [Decoder]. Such members are no errors, of any type; false, 0, null
// and empty values say nothing.
//
// # Limits
//
// The package opens no connections, requests no shards, and decompresses nothing: package frontend does. It
// does not sort items. A Tracker does not store labels: it complements an index that has them.
//
// # Specification
//
//   - RFC 8259, The JavaScript Object Notation; RFC 3629, UTF-8.
//   - Grafana Mimir's GET /prometheus/api/v1/cardinality/active_series, of April 2026, for the shape of a
//     response and the members that report an error after items.
package activeseries
