package top

import "time"

// A Reading is what a gateway said at one moment.
type Reading struct {
	At         time.Time
	Live       Live
	Statements Statements
}

// Live is the answer of /api/v1/live: all statements of the last seconds.
type Live struct {
	Seconds     float64 `json:"seconds"`
	Statements  uint64  `json:"statements"`
	PerSecond   float64 `json:"statements_per_second"`
	Errors      uint64  `json:"errors"`
	P50         float64 `json:"p50_us"`
	P99         float64 `json:"p99_us"`
	P999        float64 `json:"p999_us"`
	Connections int     `json:"connections"`
}

// Statements is the answer of /api/v1/statements.
type Statements struct {
	From       time.Time `json:"from"`
	To         time.Time `json:"to"`
	Source     string    `json:"source"`
	Matching   int       `json:"matching"`
	Total      Counts    `json:"total"`
	Statements []Row     `json:"statements"`
}

// counters is the Source of an answer that is all that was counted since From.
const counters = "counters"

// Counts are a statement's, or all statements', over the time of the answer.
type Counts struct {
	Calls        uint64  `json:"calls"`
	Errors       uint64  `json:"errors"`
	RowsSent     uint64  `json:"rows_sent"`
	RowsAffected uint64  `json:"rows_affected"`
	BytesSent    uint64  `json:"bytes_sent"`
	Seconds      float64 `json:"seconds"`
	P50          float64 `json:"p50_us"`
	P99          float64 `json:"p99_us"`
}

// A Key names what is counted together.
type Key struct {
	Digest  string `json:"digest"`
	Schema  string `json:"schema,omitempty"`
	User    string `json:"user,omitempty"`
	Backend string `json:"backend,omitempty"`
}

// A Row is one statement of the answer. Without the right to see texts it has none.
type Row struct {
	Key
	Text string `json:"text"`
	Counts
	First time.Time `json:"first_seen"`
	Last  time.Time `json:"last_seen"`
}
