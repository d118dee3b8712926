package spans

import "go.opentelemetry.io/otel/attribute"

// The request.
const (
	Digest attribute.Key = "tare.digest" // in hex: equal for requests that differ only in values
	Tenant attribute.Key = "tare.tenant"
	Code   attribute.Key = "tare.code"   // OK, or the class of the error
	Source attribute.Key = "tare.source" // samples or rollups, of a description of statements
	Status attribute.Key = "http.response.status_code"
)

// Counts.
const (
	Series      attribute.Key = "tare.series"       // of the response, or read for a description of statements
	Samples     attribute.Key = "tare.samples"      // read by PromQL or for a description of statements
	SamplesPeak attribute.Key = "tare.samples_peak" // most samples in PromQL's memory at once
	Chunks      attribute.Key = "tare.chunks"
	Blocks      attribute.Key = "tare.blocks"  // read
	Batches     attribute.Key = "tare.batches" // of series
	Files       attribute.Key = "tare.files"   // rollups opened
	Remote      attribute.Key = "tare.remote"  // of those, in the bucket
	Rows        attribute.Key = "tare.rows"    // of those files
	Matching    attribute.Key = "tare.matching"
	Reads       attribute.Key = "tare.reads" // requests to the bucket, and reads of local files
	Shards      attribute.Key = "tare.shards"
	Requests    attribute.Key = "tare.requests" // to downstreams, including retries
	Retries     attribute.Key = "tare.retries"
	ItemsIn     attribute.Key = "tare.items_in"
	ItemsOut    attribute.Key = "tare.items_out"
)

// Bytes.
const (
	BytesPlanned   attribute.Key = "tare.bytes_planned" // of chunks, estimated from their references
	BytesPeak      attribute.Key = "tare.bytes_peak"    // highest usage of the query's quota
	BytesAllowed   attribute.Key = "tare.bytes_allowed" // limit of the query
	BytesCached    attribute.Key = "tare.bytes_cached"  // found in the cache, as those of the next two
	BytesDisk      attribute.Key = "tare.bytes_disk"
	BytesMemcached attribute.Key = "tare.bytes_memcached"
	BytesFetched   attribute.Key = "tare.bytes_fetched" // read from the bucket or from local files
	BytesIn        attribute.Key = "tare.bytes_in"      // from downstreams: decompressed; of one shard, as received
	BytesOut       attribute.Key = "tare.bytes_out"     // of the response
)
