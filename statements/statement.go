package statements

import (
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/stmtseries"
	"github.com/taredb/tare/stmtstats"
)

// A StatementQuery asks for one digest over time.
type StatementQuery struct {
	Digest   string // in 32 hexadecimal digits
	From, To time.Time
	Points   int // of the series; 0: none
}

// Validate says what is wrong with q.
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

// ErrNoStatement says that nothing is known of a digest in the time that was asked for.
var ErrNoStatement = errors.New("no call of this digest in this range")

// A Statement is one digest over time: all of its Keys together, and each.
type Statement struct {
	Digest  [16]byte
	Text    string
	TextCut bool // it is only the beginning

	From, To time.Time // what was covered, as of a Top
	Source   string
	Notes    []string

	Totals
	Classes     [stmtstats.ErrorClasses]uint64 // of its errors
	First, Last time.Time                      // calls, as far as is known
	Parts       []StatementPart                // the one with the most time first

	Series Series // with Points, unless it comes from counters
	Heat   Heat
	Slow   []stmtstats.SlowCall // the slowest recent calls, the slowest first
}

// A StatementPart is one Key of a digest.
type StatementPart struct {
	stmtstats.Key
	Totals
	First, Last time.Time
}

// A Heat is how durations were spread in each point of the series.
type Heat struct {
	Bounds []time.Duration // upper bounds of the rows, ascending: each is twice the one before
	Counts [][]uint64      // [point][row]
}
