package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// A Policy has the pauses between the tries of a call, and their limits. Each pause is twice as long as the one before, from
// First up to Most, and of this a random part between half and all.
type Policy struct {
	First, Most time.Duration
	Tries       int           // in all; 0: no limit
	Patience    time.Duration // from the start of the first try; no try starts later; 0: no limit
}

// Pauses returns the pauses of a Policy, for loops that differ from Do.
func (p Policy) Pauses() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier, b.RandomizationFactor = p.First*3/4, p.Most*3/4, 2, 1./3
	return b
}

// Do calls try until it succeeds, returns an error of Final, or ctx is done or a limit is reached: then it returns the error
// of the last try, that of Final without its mark. It does not allocate if the first try succeeds.
func (p Policy) Do(ctx context.Context, try func() error) error {
	started := time.Now()
	err := try()
	if err == nil {
		return nil
	}
	pauses := p.Pauses()
	for tries := 1; err != nil; tries++ {
		if final := new(backoff.PermanentError); errors.As(err, &final) {
			return final.Unwrap()
		}
		pause := pauses.NextBackOff()
		if p.Tries > 0 && tries >= p.Tries || p.Patience > 0 && time.Since(started)+pause > p.Patience || Sleep(ctx, pause) != nil {
			return err
		}
		err = try()
	}
	return nil
}

// Final marks an error as one after which Do does not try again.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return backoff.Permanent(err)
}

// IsFinal reports whether an error is marked by Final.
func IsFinal(err error) bool {
	var final *backoff.PermanentError
	return errors.As(err, &final)
}

// An ExhaustedError wraps the error of the last try after Within has used up its patience. Callers must not retry the operation again.
type ExhaustedError struct{ error }

// Unwrap returns the error of the last try.
func (e *ExhaustedError) Unwrap() error { return e.error }

// Within calls try with pauses of 50 ms up to 2 s until it succeeds, returns an error of Final, or ctx is done. After patience it
// returns an ExhaustedError.
func Within(ctx context.Context, patience time.Duration, try func() error) error {
	final := false
	err := Policy{First: 50 * time.Millisecond, Most: 2 * time.Second, Patience: patience}.Do(ctx, func() error {
		err := try()
		final = IsFinal(err)
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

// Sleep blocks until d has passed, or ctx is done: then it returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
