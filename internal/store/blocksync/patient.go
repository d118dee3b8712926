package blocksync

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/internal/retry"
	"github.com/taredb/tare/store/tsblock"
)

// A patientSource limits the time of each attempt, retries failed attempts, and hedges slow ones.
type patientSource struct {
	source  *watchedSource
	bucket  objstore.Bucket
	timeout time.Duration
	tries   int
	hedge   time.Duration // 0: no read is hedged
	metrics *metrics
}

var _ tsblock.Source = (*patientSource)(nil)

// Costs returns the costs of the source.
func (s *patientSource) Costs() tsblock.Costs { return s.source.Costs() }

func (s *patientSource) ReadRange(ctx context.Context, name string, off int64, dst []byte) (n int, err error) {
	err = s.do(ctx, name, func(ctx context.Context) error {
		n, err = s.readHedged(ctx, name, off, dst)
		return err
	})
	return n, err
}

func (s *patientSource) Size(ctx context.Context, name string) (n int64, err error) {
	err = s.do(ctx, name, func(ctx context.Context) error {
		n, err = s.source.Size(ctx, name)
		return err
	})
	return n, err
}

func (s *patientSource) do(ctx context.Context, name string, attempt func(context.Context) error) (err error) {
	defer waitsFor(ctx, name, s.source.bucket)(&err)
	tries := 0
	return retry.Policy{First: 50 * time.Millisecond, Most: time.Second, Tries: s.tries}.Do(ctx, func() error {
		if tries++; tries > 1 {
			s.metrics.readRetries.Add(1)
		}
		err := s.once(ctx, name, attempt)
		if errors.Is(err, tsblock.ErrObjectEnd) || IsNotFound(err) || accessDenied(s.bucket, err) {
			return retry.Final(err)
		}
		return err
	})
}

func (s *patientSource) once(ctx context.Context, name string, attempt func(context.Context) error) error {
	own, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("%w: %s", errTimeout, s.timeout))
	defer cancel()
	err := attempt(own)
	switch {
	case err == nil || own.Err() == nil:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("wait for %s in bucket %s: %w", name, s.source.bucket, context.Cause(ctx))
	}
	return &BucketError{s.source.bucket, name, context.Cause(own)}
}

// A readResult is the result of one of two reads of the same bytes.
type readResult struct {
	n   int
	err error
}

// readHedged reads a range, and starts the same read a second time if the first takes longer than the hedge:
// the first success wins, and the other read is cancelled. dst is not written to after readHedged has
// returned.
func (s *patientSource) readHedged(ctx context.Context, name string, off int64, dst []byte) (int, error) {
	if s.hedge <= 0 {
		return s.source.ReadRange(ctx, name, off, dst)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	read := func(dst []byte) <-chan readResult {
		done := make(chan readResult, 1)
		go func() {
			var r readResult
			if err := panics.Guard(func() error { r.n, r.err = s.source.ReadRange(ctx, name, off, dst); return nil }); err != nil {
				r.err = err
			}
			done <- r
		}()
		return done
	}
	first := read(dst)
	timer := time.NewTimer(s.hedge)
	defer timer.Stop()
	select {
	case r := <-first:
		return r.n, r.err
	case <-timer.C:
	}
	s.metrics.readHedges.Add(1)
	other := make([]byte, len(dst))
	second := read(other)
	select {
	case r := <-first:
		if r.err == nil {
			return r.n, nil
		}
		r = <-second
		return copy(dst, other[:r.n]), r.err
	case r := <-second:
		if r.err != nil {
			r = <-first
			return r.n, r.err
		}
		cancel()
		<-first // the read owns dst until then
		return copy(dst, other[:r.n]), nil
	}
}

// A Waiting records the object of the bucket that a query waits for.
type Waiting struct{ what atomic.Pointer[string] }

type waitingKey struct{}

// Context returns a context that records its reads in w.
func (w *Waiting) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, waitingKey{}, w)
}

// Object returns the object that the query waits for, or waited for when it failed. It returns "" if there is
// none.
func (w *Waiting) Object() string {
	if what := w.what.Load(); what != nil {
		return *what
	}
	return ""
}

// waitsFor records that the query of the context waits for an object. The returned function ends the wait; if
// its error is not nil, the object stays recorded so that the query can name it.
func waitsFor(ctx context.Context, object, bucket string) func(*error) {
	w, ok := ctx.Value(waitingKey{}).(*Waiting)
	if !ok {
		return func(*error) {}
	}
	what := object + " in bucket " + bucket
	w.what.Store(&what)
	return func(err *error) {
		if *err == nil {
			w.what.CompareAndSwap(&what, nil)
		}
	}
}
