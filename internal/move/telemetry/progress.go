package telemetry

import (
	"fmt"
	"time"
)

// A CopyProgress is the progress of copying rows, over all tables.
type CopyProgress struct {
	Percent      float64 `json:"percent"` // by the estimate of rows; 100 when all are copied
	Rows         int64   `json:"rows"`
	RowsEstimate int64   `json:"rows_estimate"`

	// RowsDeviation is by how much the estimate may be wrong; null: that is unknown, because it is the server's for a table.
	RowsDeviation *int64 `json:"rows_deviation"`

	RowsPerSecond  float64 `json:"rows_per_second"` // average of this run
	BytesPerSecond float64 `json:"bytes_per_second"`

	// ETASeconds is the estimated time for the remaining rows at this rate; null: unknown, because none are
	// copied or more than estimated.
	ETASeconds *float64 `json:"eta_seconds"`
}

// Text returns the progress, for messages.
func (p *CopyProgress) Text() string {
	of, left := fmt.Sprintf("about %d", p.RowsEstimate), ""
	if p.RowsDeviation != nil {
		of = fmt.Sprintf("%d ± %d", p.RowsEstimate, *p.RowsDeviation)
	}
	if p.ETASeconds != nil {
		left = ", " + seconds(*p.ETASeconds)
		if p.RowsDeviation != nil && p.RowsPerSecond > 0 && *p.RowsDeviation > 0 {
			left += " ± " + seconds(float64(*p.RowsDeviation)/p.RowsPerSecond)
		}
		left += " left"
	}
	return fmt.Sprintf("%.1f %%, %d of %s rows, %.0f rows/s, %.1f MB/s%s", p.Percent, p.Rows, of, p.RowsPerSecond, p.BytesPerSecond/1e6, left)
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// A TableCount is the progress of a table in rows.
type TableCount struct {
	Rows, Estimate int64
	Copied         bool // all rows are copied

	Sampled   bool  // the estimate is that of the copied rows, and not the server's
	Deviation int64 // then: by how much it may be wrong
}

// NewCopyProgress computes the progress from the tables' counts and from the rows and bytes of this run.
func NewCopyProgress(tables []TableCount, rows, bytes int64, elapsed time.Duration) *CopyProgress {
	p := &CopyProgress{}
	var left, deviation int64
	all, sampled := true, true
	for _, t := range tables {
		p.Rows += t.Rows
		if t.Copied {
			p.RowsEstimate += t.Rows
			continue
		}
		all = false
		p.RowsEstimate += max(t.Rows, t.Estimate)
		left += max(0, t.Estimate-t.Rows)
		deviation += t.Deviation
		sampled = sampled && t.Sampled
	}
	if sampled {
		p.RowsDeviation = &deviation
	}
	switch {
	case all:
		p.Percent = 100
	case p.RowsEstimate > 0:
		p.Percent = min(99.9, 100*float64(p.Rows)/float64(p.RowsEstimate))
	}
	if seconds := elapsed.Seconds(); seconds > 0 {
		p.RowsPerSecond, p.BytesPerSecond = float64(rows)/seconds, float64(bytes)/seconds
	}
	if p.RowsPerSecond > 0 && (all || left > 0) {
		eta := float64(left) / p.RowsPerSecond
		p.ETASeconds = &eta
	}
	return p
}
