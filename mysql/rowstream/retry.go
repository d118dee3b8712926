package rowstream

import (
	"context"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/retry"
)

// The minimum and maximum back-off of Retry.
const minPause, maxPause = 50 * time.Millisecond, 2 * time.Second

// A ExhaustedError wraps the error of the last try after Retry has used up its patience. Callers must not retry the operation again.
type ExhaustedError struct{ error }

// Unwrap returns the error of the last try.
func (e *ExhaustedError) Unwrap() error { return e.error }

// Final marks an error as permanent: Retry returns it without another try.
func Final(err error) error { return retry.Final(err) }

// Retry calls try with exponential back-off until it succeeds, returns an error marked by Final, or ctx is done. After patience it
// returns a ExhaustedError.
func Retry(ctx context.Context, patience time.Duration, try func() error) error {
	final := false
	err := retry.Policy{First: minPause, Most: maxPause, Patience: patience}.Do(ctx, func() error {
		err := try()
		final = retry.IsFinal(err)
		return err
	})
	switch {
	case err == nil || final:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return &ExhaustedError{fmt.Errorf("%w; tried for %v", err, patience)}
}
