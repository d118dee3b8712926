package rowstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Pauses between the tries of Retry.
const minPause, maxPause = 50 * time.Millisecond, 2 * time.Second

// A GoneError is the last error of what was tried for as long as is patient. Its cause is not tried again.
type GoneError struct{ error }

// Unwrap returns the error of the last try.
func (e *GoneError) Unwrap() error { return e.error }

// Final marks the error of a try that no other try would mend.
func Final(err error) error { return backoff.Permanent(err) }

// Retry calls try until it succeeds or its error is Final, with growing pauses, and a GoneError after the patience.
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
		return &GoneError{fmt.Errorf("%w; tried for %v", err, patience)}
	}
	return err
}
