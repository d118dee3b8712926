package storegateway

import (
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/slab"
)

// Limits bound one query besides its bytes, which the gate's quota bounds. 0 is no limit.
type Limits struct {
	Series   int64         // that are answered, each once in however many blocks it is
	Chunks   int64         // that are read, in all blocks; counted before they are fetched
	Duration time.Duration // from admission to the last series
}

// ErrLimit is what every *LimitError is, for errors.Is.
var ErrLimit = errors.New("over a limit of the query")

// A LimitError ends a query that goes over one of its Limits.
type LimitError struct {
	What    string // "series", "chunks" or "duration"
	Asked   int64  // how many the query has come to; of a duration, nanoseconds
	Allowed int64
}

// Error says which limit, how much was asked and how much is allowed.
func (e *LimitError) Error() string {
	if e.What == limitDuration {
		return fmt.Sprintf("query duration: the query takes longer than the limit of %s", time.Duration(e.Allowed))
	}
	return fmt.Sprintf("query %s: the query comes to %d, the limit is %d", e.What, e.Asked, e.Allowed)
}

// Is has errors.Is find ErrLimit.
func (e *LimitError) Is(target error) bool { return target == ErrLimit }

// Names of limits.
const (
	limitSeries   = "series"
	limitChunks   = "chunks"
	limitDuration = "duration"
)

// IsLimit reports whether err says that a query went over its bytes or another limit: gRPC's
// ResourceExhausted, HTTP's 422.
func IsLimit(err error) bool {
	return errors.Is(err, slab.ErrOverQuota) || errors.Is(err, ErrLimit)
}
