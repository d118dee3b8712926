// Package storeapi serves the blocks of a store gateway over gRPC, as Thanos' StoreAPI and InfoAPI:
//
//	api := storeapi.New(gateway, storeapi.Options{Timeout: 2 * time.Minute})
//	server := api.NewServer()
//	defer server.Stop()
//	return api.Serve(server, listener)
//
// A Thanos querier uses the address of listener as a store (--endpoint).
//
// # Data flow
//
//	request ─> admission (storegateway) ─> series ─> frames ─> messages ─> client
//	                                   └─> names, values ─> one encoded message, charged to the budget of responses
//
// A frame is a buffer that encoded messages are appended to and sent from.
//
// # Costs
//
// Series copies each chunk once and allocates per message, not per series or chunk. A stream has one frame of
// 256 KiB, more if a series needs it, and a second one for compressed messages. They are charged to its query: a
// slow client retains no more than that. If a call fails while the transport still has messages of it, their bytes
// are charged to the budget of responses until the client has taken them or its connection is closed.
//
// # Limits
//
// Chunks with start timestamps are re-encoded without them, which costs some
// allocations per chunk; a chunk of an unknown encoding fails the request.
package storeapi
