package storegateway

import (
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/slab"
)

// Limits bound one query in addition to its bytes, which the gate's quota bounds. 0 is no limit.
type Limits struct {
	Series   int64         // series returned; a series in several blocks counts once
	Chunks   int64         // chunks read in all blocks; checked before they are fetched
	Duration time.Duration // from admission to the last series
}

// A LimitError reports that a query exceeded one of its Limits.
type LimitError struct {
	What    string // "series", "chunks" or "duration"
	Asked   int64  // the query's count; of a duration, nanoseconds
	Allowed int64
}

// Error returns the limit, the query's count and the allowed count.
func (e *LimitError) Error() string {
	if e.What == limitDuration {
		return fmt.Sprintf("query duration: the query takes longer than the limit of %s", time.Duration(e.Allowed))
	}
	return fmt.Sprintf("query %s: the query comes to %d, the limit is %d", e.What, e.Asked, e.Allowed)
}

// Names of limits.
const (
	limitSeries   = "series"
	limitChunks   = "chunks"
	limitDuration = "duration"
)

// isLimit reports whether err says that a query exceeded its bytes or another limit. It is ResourceExhausted
// in gRPC and 422 in HTTP.
func isLimit(err error) bool {
	return errors.Is(err, slab.ErrOverQuota) || is[*LimitError](err)
}
