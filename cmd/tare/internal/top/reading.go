package top

import (
	"encoding/json"
	"time"

	"github.com/taredb/tare/internal/history/statements"
)

// A Reading is the responses of a gateway at one time.
type Reading struct {
	Ask        Ask
	At         time.Time
	Live       Live
	Statements Statements
	Sessions   *Sessions // nil: the gateway has no such API, or the account may not see it
	Event      *Event    // the newest of the last quarter of an hour; nil: none, or the account may not see events
}

// An Event is one of the response of /api/v1/events: a schema change, a lock, a deployment.
type Event struct {
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind"`
	Title  string    `json:"title"`
	Text   string    `json:"text"`
	Cut    bool      `json:"text_cut"`
	User   string    `json:"user"`
	Client string    `json:"client"`
}

// events is the response of /api/v1/events.
type events struct {
	Events []Event `json:"events"`
}

// Live is the response of /api/v1/live: all statements of the last seconds.
type Live struct {
	Seconds    float64 `json:"seconds"`
	Statements uint64  `json:"statements"`
	PerSecond  float64 `json:"statements_per_second"`
	Errors     uint64  `json:"errors"`

	// Quantiles are missing without statements, and here 0.
	P50       float64 `json:"p50_us,omitempty"`
	P99       float64 `json:"p99_us,omitempty"`
	P999      float64 `json:"p999_us,omitempty"`
	RecentP99 float64 `json:"p99_recent_us,omitempty"`

	Connections int `json:"connections"`
}

// Statements is the response of /api/v1/statements.
type Statements struct {
	From       time.Time `json:"from"`
	To         time.Time `json:"to"`
	Source     string    `json:"source"`
	Matching   int       `json:"matching"`
	Total      Counts    `json:"total"`
	Statements []Row     `json:"statements"`
}

// counters is the Source of a response that covers all calls since From.
const counters = "counters"

// Counts are those of a statement, or of all statements, over the time range of the response.
type Counts = statements.TotalsJSON

// A Key identifies calls that are counted together.
type Key struct {
	Digest  string `json:"digest"`
	Schema  string `json:"schema,omitempty"`
	User    string `json:"user,omitempty"`
	Backend string `json:"backend,omitempty"`
}

// A Change is that a statement became heavier or is new.
type Change struct {
	Kind  string    `json:"kind"`
	Since time.Time `json:"since"`
	Times float64   `json:"times"` // of Kind "heavier": load since then divided by that before
}

// A Row is one statement of the response. Without the right to statement texts, Text is empty.
type Row struct {
	Key
	Text      string    `json:"text"`
	TextCut   bool      `json:"text_cut"`
	Counts    Counts    `json:"-"` // its members are members of the row
	Durations Durations `json:"durations"`
	Change    *Change   `json:"change"` // nil: none is known
	First     time.Time `json:"first_seen"`
	Last      time.Time `json:"last_seen"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Row) UnmarshalJSON(object []byte) error {
	type row Row
	if err := json.Unmarshal(object, (*row)(r)); err != nil {
		return err
	}
	return json.Unmarshal(object, &r.Counts)
}
