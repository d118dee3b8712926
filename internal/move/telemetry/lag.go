package telemetry

import (
	"fmt"
)

// A Lag is the delay of the target behind the source.
type Lag struct {
	Seconds   *float64 `json:"seconds"`                           // delay of the last heartbeat, or of the oldest one in flight; null: unknown
	Confirmed *float64 `json:"confirmed_seconds_ago"`             // age of the last proof; null: there is none
	CommitAge *float64 `json:"last_commit_seconds_ago,omitempty"` // of the last applied transaction, by the source's clock
	Bytes     *int64   `json:"bytes"`                             // of the source's log that are not applied; null: unknown
	Position  string   `json:"position"`                          // of the source's log: everything before it is applied
	Changes   int64    `json:"changes"`                           // changes of rows applied by this run
	PerSecond float64  `json:"changes_per_second"`
	CaughtUp  bool     `json:"caught_up"` // the target has caught up once: since then transactions are applied as a whole

	// ETASeconds is the estimated time to catch up at the current rates; omitted if the lag does not shrink.
	ETASeconds float64 `json:"eta_seconds,omitempty"`

	// Outrun is set while the source writes faster than the target applies.
	Outrun *Outrun `json:"outrun,omitempty"`
}

// Text returns the lag with its age, for messages.
func (l *Lag) Text() string {
	switch {
	case l.Seconds != nil && l.Confirmed != nil:
		return fmt.Sprintf("%.1f s behind, confirmed %.1f s ago", *l.Seconds, *l.Confirmed)
	case l.Confirmed != nil:
		return fmt.Sprintf("lag unknown, last confirmed %.0f s ago", *l.Confirmed)
	case l.CommitAge != nil:
		return fmt.Sprintf("lag unknown, applied up to a commit of %.0f s ago", *l.CommitAge)
	}
	return "lag unknown"
}

// An Outrun describes a source that writes faster than the target applies: at these rates the target will not
// catch up.
type Outrun struct {
	Seconds     float64 `json:"seconds"`                 // period of the rates
	Source      float64 `json:"source_bytes_per_second"` // of binary log written
	Target      float64 `json:"target_bytes_per_second"` // of binary log applied
	TargetRows  float64 `json:"target_changes_per_second"`
	SourceRows  float64 `json:"source_changes_per_second"` // estimated from the average size of the applied changes; 0 if none were applied
	LagGrowthBy float64 `json:"lag_bytes_per_second"`
}

// String returns the rates, for messages.
func (o *Outrun) String() string {
	rows := ""
	if o.SourceRows > 0 {
		rows = fmt.Sprintf("about %.0f rows/s against %.0f, ", o.SourceRows, o.TargetRows)
	}
	return fmt.Sprintf("over %.0f s the source wrote %.2f MB/s of binary log and the target applied %.2f MB/s (%sthe lag grows by %.2f MB/s)",
		o.Seconds, o.Source/1e6, o.Target/1e6, rows, o.LagGrowthBy/1e6)
}
