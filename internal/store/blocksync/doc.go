// Package blocksync keeps the set of blocks that queries read in step with a bucket of TSDB blocks.
//
// A [Syncer] polls the bucket. A query pins blocks with [Syncer.Open] and reads them through [Handle.Reader]:
//
//	s, err := blocksync.New(blocksync.Options{Bucket: bucket, DataDir: dir, Cache: cache, Pool: pool, Log: log})
//	if err != nil {
//		return err
//	}
//	go s.Run(ctx)
//	…
//	handles, tenant := s.Open("", mint, maxt)
//	defer blocksync.ReleaseAll(handles)
//	missing := tenant.Missing(mint, maxt, matchers, nil)
//
// # Terms
//
//   - A bucket is a directory or an S3 bucket, accessed through objstore. It is only read.
//   - A layout is the arrangement of blocks in a bucket: a Prometheus data directory, a Thanos bucket, a
//     Mimir bucket.
//   - A tenant is a directory of a Mimir bucket, selected by X-Scope-OrgID; other layouts have one tenant
//     with an empty name.
//   - A sync compares the served blocks with the bucket. A block of the bucket that is not served is skipped;
//     pages and metrics show the reason.
//   - A gap is a block whose samples are missing from results.
//   - A shard is the part of the blocks that one process serves, selected by the hash of their ids.
//   - A Handle pins a block for a query: a block that leaves the set is closed when its last Handle is
//     released.
//   - External labels apply to all series of a block. They are in its meta.json, not in its index.
//   - Deletions are the tombstones of a block of a running Prometheus.
//
// # Limits
//
// The package writes nothing to the bucket: it does not compact, delete or mark blocks. It does not serve samples
// outside of blocks, such as those of a write-ahead log.
//
// # Specification
//
//   - Blocks: https://github.com/prometheus/prometheus/blob/main/tsdb/docs/format/README.md
//   - The thanos section of meta.json, and marks: https://thanos.io/tip/thanos/storage.md
//   - Mimir's bucket: https://grafana.com/docs/mimir/latest/references/architecture/bucket-index/
package blocksync
