// Package storeapi serves the blocks of a store gateway over Thanos' StoreAPI and InfoAPI, which are gRPC.
//
// # Data flow
//
//	request ─> admission (storegateway) ─> series ─> frames ─> messages ─> client
//	                                   └─> names, values ─> one encoded message, charged to the budget of responses
//
// A frame is a buffer that messages are written into, one behind the other, and sent from. A stream has one frame, which
// is charged to its query; its size bounds what a slow client holds.
//
// # What it does not do
//
// Blocks that were downsampled are not served. Chunks of encodings that the StoreAPI has no name for are an error.
package storeapi
