package statements

import (
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// A StatementQuery selects one digest and a time range.
type StatementQuery struct {
	Digest   string // 32 hexadecimal digits
	From, To time.Time
	Points   int // of the series; 0: none
}

// Validate returns an error if q is invalid.
func (q *StatementQuery) Validate() error {
	var errs []error
	if _, err := stmtseries.ParseDigest(q.Digest); err != nil {
		errs = append(errs, err)
	}
	if !q.From.Before(q.To) {
		errs = append(errs, errRange)
	}
	if q.Points < 0 || q.Points > MaxPoints {
		errs = append(errs, fmt.Errorf("%d points: want 0 to %d", q.Points, MaxPoints))
	}
	return errors.Join(errs...)
}

// ErrNoStatement means that a digest has no call in the range.
var ErrNoStatement = errors.New("no call of this digest in this range")

// A Statement describes one digest over time: all of its Keys together, and each of them.
type Statement struct {
	Digest  [16]byte
	Text    string
	TextCut bool // only the beginning of the text

	From, To time.Time // the range covered, as in Top
	Source   string
	Notes    []string

	Totals
	Classes     [stmtstats.ErrorClasses]uint64 // of its errors
	First, Last time.Time                      // calls, as far as known
	Parts       []StatementPart                // the one with the most time first

	Series Series // with Points, unless the source is the counters
	Heat   Heat
	Slow   []stmtstats.SlowCall // the slowest recent calls, the slowest first
}

// A StatementPart is one Key of a digest.
type StatementPart struct {
	stmtstats.Key
	Totals
	First, Last time.Time
}

// A Heat is the distribution of durations in each point of the series.
type Heat struct {
	Bounds []time.Duration // upper bounds of the rows, ascending: each is twice the previous one
	Counts [][]uint64      // [point][row]
}
