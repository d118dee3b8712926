// Package activeseries answers which series are live, and merges the answers of many shards to that
// question, checked byte by byte, without copying or allocating per series.
//
// # Terms
//
//   - An item is a series in an answer: a JSON object of label names and values.
//   - A body is one shard's answer, a source where it comes from.
//   - A decoder checks a body and passes its items on. Scanner and FrameScanner are the strict
//     ones, Plain and PlainFrames their twins on encoding/json, which accept the same.
//   - A form is how a body is written: as JSON, or as frames.
//   - A series is live when it got a sample lately; a Tracker keeps which are.
//
// # Data flow
//
//	body ──► window ──► items: views of the window ──► Body.WriteTo ──► the client
//	           ▲   │            │
//	           │   │            ├── hashes ──► those not seen before    (Order.Unique)
//	           │   │            └── values ──► counts                   (Order.CountBy)
//	           └───┘ the item that the end of the window cuts
//
//	sample ──► Tracker.Update ──► one word of a table ◄── Tracker.Sweep
//
// Bodies are read by as many goroutines as there are processors, not as there are bodies: the
// others wait in their connections' buffers. Whoever has read items writes them, under one lock;
// there is no channel, no pipe, and no copy between the window and the writer. A slow client so
// holds back all shards.
//
// # What is accepted
//
// A body is one JSON text by RFC 8259 in UTF-8 without byte order mark: an object with at most one
// member "data", which is an array of objects whose values are all strings, or null for
// no items. Other members may be anything; they may come before and after. That is what
// encoding/json.Valid accepts, less
//
//   - invalid UTF-8, which Valid lets pass;
//   - a second "data", and bodies without one, unless they report an error;
//   - what is not of the shape;
//   - an item, or a string or number beside the items, of more than MaxItem bytes.
//
// Names are compared byte for byte after their escapes: "DATA" is another member, "d\u0061ta" is
// not. Escapes of lone surrogates are accepted, nesting is limited as in encoding/json. A
// label may come twice in an item.
//
// A body reports an error with a member "error" that is a string and not empty, or neither a string nor
// null, or with the member "status" being "error". Its items are passed on before.
//
// # What it does not do
//
// It opens no connections, asks no shards, and decompresses nothing: package frontend does. It
// does not sort items. It keeps no labels: a Tracker stands beside an index that has them.
//
// # Specification
//
//   - RFC 8259, The JavaScript Object Notation; RFC 3629, UTF-8.
//   - Grafana Mimir's GET /prometheus/api/v1/cardinality/active_series, of April 2026, for the shape
//     of an answer and the members that report an error after items; and its content type
//     application/vnd.mimir.active-series-framed, of July 2026, for frames. The end record of frames
//     is ours: see ContentTypeFramedEnd.
//   - RFC 9260, appendix A, for the polynomial of CRC-32C.
package activeseries
