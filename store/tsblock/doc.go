// Package tsblock reads a Prometheus TSDB block in a bucket by ranges: the series that match, their labels
// and their chunks, for a query with a budget in bytes.
//
// A [Block] is opened once per process and read by one [Reader] per query:
//
//	r := block.Reader(quota)
//	defer r.Close()
//	postings, err := r.Postings(ctx, matchers...)
//	if err != nil {
//		return err
//	}
//	series := r.Series(postings, tsblock.Select{MinTime: mint, MaxTime: maxt})
//	for {
//		batch, err := series.Next(ctx)
//		if errors.Is(err, tsblock.ErrNoMoreSeries) {
//			return nil
//		}
//		if err != nil {
//			return err
//		}
//		if err := r.LoadChunks(ctx, batch); err != nil { … }
//		… // batch.Labels(i), batch.Chunks(i), batch.Data(i, j)
//		batch.Release()
//	}
//
// The package example is complete.
//
// # Terms
//
//   - A block is a meta.json, an index, and segments of chunks, under one prefix of a bucket.
//   - A series reference identifies a series in the index; a postings list contains, in ascending order, the
//     references of the series that have one value of one label.
//   - The index header is the part of the index that locates lists and symbols. It is stored in a local file;
//     label names and the position of one in 32 values and symbols are kept in memory.
//   - A page is 16 KiB of a file. Pages of all blocks' indexes and local files are in one Cache, the only
//     cache: readers decode directly from pages.
//   - A batch has some series, in slabs: labels, chunk references and, once loaded, chunk data.
//   - Charged bytes are reserved in the query's slab.Quota before they are allocated or pinned.
//
// # Data flow
//
//	New ─ meta.json ─> Block ─ first use ─> header ─ local file, or built from ranges of the index
//	                      │
//	                   Reader ─ one query, charged to its quota
//	                      │
//	matchers ─> conditions, one per label name ─> lists, by the header ─┐    pages: cache, or
//	                      ┌──── cheapest first: intersect, subtract <───┴─── ranges of the index
//	                   Postings
//	                      │      shard: series hashes, local file
//	                 SeriesReader ─ a window of references ─> entries ─> symbols, each once, in order
//	                      │
//	                    Batch ─ LoadChunks: PlanChunks ─> ranges ─> slabs ─> CRCs ─> views
//
// # Checks
//
// Building the header checks the CRC32C of the table of contents, of the symbols and of the postings offset
// table. Reading a page of a local file checks the page's CRC32C; a local file that is damaged, or belongs to
// another index, is removed and rebuilt. Every decoding of a postings list, a series entry or a chunk checks
// its CRC32C. Bytes that cannot be decoded are reported as a *CorruptError, which names block, file and
// offset. A length is accepted only up to the end of its section.
//
// # Why one cache of pages
//
// A cache of decoded items (lists, series, expanded postings) needs a key, an entry and a lock per item,
// stores bytes twice when queries overlap, and cannot be bounded in true bytes without sizing each item.
// Pages cost one lookup per some forty series, their size is known from the allocator, and decoding from them
// costs less than looking up the decoded item: about 1.2 µs per series of 48 chunks, including the checksum.
//
// # Why lists are read in full
//
// A list is read into a slab of 4 bytes per series rather than iterated in pages, because its checksum covers
// the whole list: no reference is used before it was checked. Intersections and differences are evaluated
// lazily; unions are materialized, since most of them are of short lists, with a bitmap where references are
// dense.
//
// # Query sharding
//
// The shard of a series is labels.StableHash of its labels modulo the number of shards, as in Mimir. The
// first sharded query of a block hashes all its series into a local file; after that a shard does not read
// series of other shards.
//
// # Limits
//
// The package does not find or merge blocks: see package storegateway. It ignores tombstones, which
// Meta().Stats.NumTombstones counts, unless Select.Deleted applies them, and adds no external labels. Two
// queries that miss the same page concurrently both fetch it.
//
// # Specification
//
//   - Prometheus, tsdb/docs/format/index.md and chunks.md: index versions 1 and 2, chunks version 1.
//   - Prometheus, tsdb/querier.go: semantics of matchers, and which chunks belong to a time range.
//   - Thanos, docs/storage.md: the section "thanos" of meta.json.
package tsblock
