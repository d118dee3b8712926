// Package blocksync keeps the blocks that queries read in step with a bucket of TSDB blocks.
//
// # Terms
//
//   - A bucket is a directory or an S3 bucket, through objstore. It is only read.
//   - A layout is the arrangement of blocks in it: a Prometheus data directory, a Thanos bucket, a Mimir
//     bucket.
//   - A tenant is a directory of a Mimir bucket, named by X-Scope-OrgID; other layouts have one
//     tenant, of no name.
//   - A sync compares the blocks that are served with the bucket. A block of the bucket that is
//     not served is skipped, for a reason that pages and metrics show.
//   - A gap is a block whose samples are missing in results.
//   - A shard is one process' part of the blocks, by the hash of their ids.
//   - A Handle pins a block for a query: a block that leaves the set is closed by its last Handle.
//   - External labels belong to all series of a block and are in its meta.json, not in its index.
//   - Deletions are the tombstones of a block of a running Prometheus.
//
// # What it does not do
//
// It writes nothing to the bucket: it compacts, deletes and marks no block. It serves no data
// that is not in a block yet, and no downsampled blocks.
//
// # Specification
//
//   - Blocks: https://github.com/prometheus/prometheus/blob/main/tsdb/docs/format/README.md
//   - Thanos' section of meta.json and its marks: https://thanos.io/tip/thanos/storage.md
//   - Mimir's bucket: https://grafana.com/docs/mimir/latest/references/architecture/bucket-index/
package blocksync
