// Package diskcache keeps pages of immutable objects in one file on local disk, within a bound in bytes, so that
// a process that restarts finds them again.
//
// # File
//
// The file has a fixed number of slots. A slot has a header of 64 bytes, in a table at the start of the file,
// and room for a page of 16 KiB. A page can be stored in 16 slots, a set, which a hash of its key selects. The
// tag of each slot, a hash of the key, is in memory: a miss reads nothing, and a hit reads a header and a page.
//
//	identification | header of slot 0 | header of slot 1 | … | page of slot 0 | page of slot 1 | …
//
// The file has no other index. Tags are read from the table of headers when the cache is opened, which takes
// 64 bytes per slot, 0.4 % of the file.
//
// # Checks
//
// A header contains the key of its page and the CRC32C of key and page. Get checks both on each read. A page
// that is damaged, short or of another key is a miss, is counted, and leaves the cache. Writes are not
// synced: a page lost by a power failure is a damaged one.
//
// # Bounds
//
// The file is never longer than 255/256 of Options.Bytes; the rest is left for the file system's records of the
// file. Memory is 8.5 bytes per slot (0.53 MiB per GiB), and 8 MiB for pages that wait to be written.
//
// # Writes
//
// Set copies the page to a queue, which one goroutine writes, and drops the page if the queue is full. A failed
// write turns insertion off for Options.RetryAfter; pages that are stored remain readable.
package diskcache
