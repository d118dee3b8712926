// Package tsblock reads one Prometheus TSDB block in a bucket, by ranges: which series match, their
// labels, and their chunks, for a query that has a budget in bytes.
//
// # Terms
//
//   - A block is a meta.json, an index, and segments of chunks, under one prefix of a bucket.
//   - A series' reference is the number by which the index knows it; a postings list is the
//     ascending references of the series that have one value of one label.
//   - The index header is the part of the index by which lists and symbols are found. It is
//     kept in a local file; in memory are label names and the place of one value, or symbol, in 32.
//   - A page is 16 KiB of a file. Pages of all blocks' indexes and local files are in one Cache,
//     which is all that is cached: readers decode straight from them.
//   - A batch is some series, in slabs: labels, chunk references and, once loaded, chunk data.
//   - Charged means reserved in the query's slab.Quota, before it is allocated or pinned.
//
// # Data flow
//
//	Open ─ meta.json ─> Block ─ first use ─> header ─ local file, or built from ranges of the index
//	                      │
//	                   Reader ─ one query, charged to its quota
//	                      │
//	matchers ─> conditions, one a label name ─> lists, by the header ─┐      pages: cache, or
//	                      ┌──── cheapest first: intersect, subtract <─┴───── ranges of the index
//	                   Postings
//	                      │      shard: series hashes, local file
//	                 SeriesReader ─ a window of references ─> entries ─> symbols, each once, in order
//	                      │
//	                    Batch ─ LoadChunks: PlanChunks ─> ranges ─> slabs ─> CRCs ─> views
//
// # What is checked when
//
// When the header is built: the CRC32C of the table of contents, of the symbols and of the postings
// offset table. When a page of a local file is read: its own CRC32C; a local file that is damaged, or of
// another index, is removed and built anew. When it is decoded, each time: the CRC32C of each postings list,
// each series entry and each chunk. What cannot be read is a *CorruptError, which names
// block, file and offset. What a length claims is believed as far as its section goes.
//
// # Why one cache of pages
//
// A cache of decoded items (lists, series, expanded postings) has a key, an entry and a lock for each,
// holds bytes twice when queries overlap, and cannot be bounded in true bytes without
// weighing each. Pages cost one lookup for some forty series, their size is the allocator's own, and
// decoding from them costs less than finding the decoded item would: about 1.2 µs a series of 48
// chunks, checksum included.
//
// # Why lists are read whole
//
// A list is read into a slab of 4 bytes a series, not walked in the pages, because its checksum covers all of it:
// no reference is believed before it was checked. Intersections and differences are walked, not
// built; unions are built, since most are of short lists, by a bitmap where references are
// dense.
//
// # Query sharding
//
// The shard of a series is labels.StableHash of its labels modulo the number of shards, as in Mimir. The first
// sharded query of a block hashes all its series once into a local file; from then on a shard
// reads no series of another.
//
// # What it does not do
//
// It finds no blocks in a bucket and merges none: that is storegateway. It knows no tombstones:
// Meta().Stats.NumTombstones tells whether a block has some. It adds no external labels. Two
// queries that miss the same page at once both fetch it.
//
// # Specification
//
//   - Prometheus, tsdb/docs/format/index.md and chunks.md: index versions 1 and 2, chunks version 1.
//   - Prometheus, tsdb/querier.go: what matchers match, which chunks belong to a time range.
//   - Thanos, docs/storage.md: the section "thanos" of meta.json.
package tsblock
