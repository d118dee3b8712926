// Package sharedcache keeps pages of immutable objects in memcached servers, so that several processes share
// the pages that one of them has read from a bucket.
//
// # Keys
//
// A key is the same in every process: "tare1:", the identity of bucket, block and file as 64 characters of
// base64, the number of the page, and the size of pages. Processes with other buckets use other keys. The server
// of a page is chosen by rendezvous hashing over the names of the servers, in any order; 16 consecutive pages
// are on one server, so that one call reads them.
//
// # Values
//
// The servers are not trusted. A value starts with a header of 64 bytes, which has the identity of the page
// again and the CRC32C of header and page. Get checks both: a value that is damaged, cut or of another page is a
// miss and is counted. A response that is longer than the requested pages is an error.
//
// # Failures
//
// A call ends after Options.Timeout. A server whose calls fail five times in succession, or in a fifth of the
// reads of ten seconds, is not called for Options.Retry; then one call is a trial. A call that takes more than
// half of the time-out counts as failed, though its pages are used. After such a call Get does not call the server
// again. No failure reaches the caller: pages are missing.
//
// # Bounds
//
// Reads use at most 32 batches of 16 pages; without an idle one, pages count as skipped. Set copies the page to
// a queue of at most 512 pages, which one goroutine writes, and drops the page if the queue is full. Both
// together take at most 17.3 MiB. The client allocates keys, items and a map for each call, and no pages.
package sharedcache
