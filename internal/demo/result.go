package demo

import "time"

// EngineReady is the line that `tare-demo engine` prints when it answers statements.
type EngineReady struct {
	Address  string `json:"address"`
	Database string `json:"database"`
	Rows     int    `json:"rows"`
}

// A Result is what `tare demo --json` prints. Durations in it are microseconds.
type Result struct {
	// Seconds that the workload ran.
	Seconds float64 `json:"seconds"`

	// Queries is how many statements went through the gateway, by its own count.
	Queries          uint64  `json:"queries"`
	QueriesPerSecond float64 `json:"queries_per_second"`

	// Errors leaves out ExpectedErrors, which the workload provokes on purpose.
	Errors         uint64 `json:"errors"`
	ExpectedErrors uint64 `json:"expected_errors"`
	LastError      string `json:"last_error,omitempty"`

	// LogDropped is how many records the log stream could not take: they are in Queries
	// and in no digest.
	LogDropped uint64 `json:"log_dropped"`

	P50 float64 `json:"p50_us"`
	P99 float64 `json:"p99_us"`

	// Digests by share of time, heaviest first.
	Digests []DigestResult `json:"digests"`

	Weight WeightResult `json:"weight"`

	// Note says what bounds the figures.
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

// A WeightResult is what the gateway's process cost, without what answering the demo's own
// questions cost it.
type WeightResult struct {
	CPU    float64 `json:"cpu_us_per_query"` // user and system
	Heap   float64 `json:"heap_bytes_per_query"`
	Allocs float64 `json:"allocs_per_query"`
	RSS    int64   `json:"rss_bytes"` // at the end

	// Scrapes is how often /metrics was read while the workload ran, and the others what
	// one answer costs, measured before: Scrapes times these are taken off above.
	Scrapes      int     `json:"scrapes"`
	ScrapeCPU    float64 `json:"scrape_cpu_us"`
	ScrapeHeap   float64 `json:"scrape_heap_bytes"`
	ScrapeAllocs float64 `json:"scrape_allocs"`
}

// ceilingNote is said wherever statements a second are shown.
const ceilingNote = "the ceiling of some 1,500 statements a second is the embedded engine's, not Tare's"

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
