package rowstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// The minimum and maximum back-off of Retry.
const minPause, maxPause = 50 * time.Millisecond, 2 * time.Second

// A ExhaustedError wraps the error of the last try after Retry has used up its patience. Callers must not retry the operation again.
type ExhaustedError struct{ error }

// Unwrap returns the error of the last try.
func (e *ExhaustedError) Unwrap() error { return e.error }

// Final marks an error as permanent: Retry returns it without another try.
func Final(err error) error { return backoff.Permanent(err) }

// Retry calls try with exponential back-off until it succeeds, returns an error marked by Final, or ctx is done. After patience it
// returns a ExhaustedError.
func Retry(ctx context.Context, patience time.Duration, try func() error) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval, pauses.Multiplier = minPause, maxPause, 2
	final := false
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := try()
		var permanent *backoff.PermanentError
		final = errors.As(err, &permanent)
		return struct{}{}, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(patience))
	if err != nil && !final && ctx.Err() == nil {
		return &ExhaustedError{fmt.Errorf("%w; tried for %v", err, patience)}
	}
	return err
}
