package demo

import "time"

// EngineReady is the line that `tare-demo engine` prints when it is ready.
type EngineReady struct {
	Address  string `json:"address"`
	Database string `json:"database"`
	Rows     int    `json:"rows"`
}

// A Result is the output of `tare demo --json`. Durations are in microseconds.
type Result struct {
	// Seconds is the duration of the workload.
	Seconds float64 `json:"seconds"`

	// Queries is the number of statements through the gateway, by its counter.
	Queries          uint64  `json:"queries"`
	QueriesPerSecond float64 `json:"queries_per_second"`

	// Errors excludes ExpectedErrors, which the workload provokes deliberately.
	Errors         uint64 `json:"errors"`
	ExpectedErrors uint64 `json:"expected_errors"`
	LastError      string `json:"last_error,omitempty"`

	// LogDropped is the number of records that the log stream dropped: they are included in Queries and in no
	// digest.
	LogDropped uint64 `json:"log_dropped"`

	P50 float64 `json:"p50_us"`
	P99 float64 `json:"p99_us"`

	// Digests by fraction of time, heaviest first.
	Digests []DigestResult `json:"digests"`

	Weight WeightResult `json:"weight"`

	// Note states the upper bound of the rates.
	Note string `json:"note"`
}

// A DigestResult is one digest of a Result.
type DigestResult struct {
	Digest         string  `json:"digest"`
	Text           string  `json:"text"` // normalized
	Calls          uint64  `json:"calls"`
	CallsPerSecond float64 `json:"calls_per_second"`
	P50            float64 `json:"p50_us"`
	P99            float64 `json:"p99_us"`
	Rows           uint64  `json:"rows"` // returned and affected
	Errors         uint64  `json:"errors"`
	ShareOfTime    float64 `json:"share_of_time"` // 0 to 1
}

// A WeightResult is the cost of the gateway's process, without the cost of the demo's requests.
type WeightResult struct {
	CPU    float64 `json:"cpu_us_per_query"` // user and system
	Heap   float64 `json:"heap_bytes_per_query"`
	Allocs float64 `json:"allocs_per_query"`
	RSS    int64   `json:"rss_bytes"` // at the end

	// Scrapes is the number of reads of /metrics while the workload ran; the other fields are the cost of
	// one, measured before: their product is subtracted above.
	Scrapes      int     `json:"scrapes"`
	ScrapeCPU    float64 `json:"scrape_cpu_us"`
	ScrapeHeap   float64 `json:"scrape_heap_bytes"`
	ScrapeAllocs float64 `json:"scrape_allocs"`
}

// ceilingNote accompanies every rate of statements.
const ceilingNote = "the ceiling of some 1,500 statements a second is the embedded engine's, not Tare's"

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
