package storegateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/tsblock"
)

// newSource returns where the blocks of a gateway are read from.
func newSource(bucket objstore.Bucket, o Options, gone func(), m *metrics) tsblock.Source {
	if o.LocalBucket != "" {
		return &watchedSource{Source: tsblock.Dir(o.LocalBucket), gone: gone, notFound: isNotExist}
	}
	s := &watchedSource{Source: tsblock.Bucket[objstore.ObjectAttributes](bucket), gone: gone, notFound: func(err error) bool { return notFound(bucket, err) }}
	if bucket.Provider() == objstore.FILESYSTEM {
		return s // what a file does not give at once it does not give later
	}
	return &patientSource{source: s, timeout: o.CallTimeout, tries: o.CallTries, retries: m, bucket: bucket}
}

// A watchedSource tells when an object is not there that should be: the bucket has changed, and
// the sooner that is known the fewer queries fail.
type watchedSource struct {
	tsblock.Source
	gone     func()
	notFound func(error) bool
}

var _ tsblock.Source = (*watchedSource)(nil)

func (s *watchedSource) ReadRange(ctx context.Context, name string, off int64, dst []byte) (int, error) {
	n, err := s.Source.ReadRange(ctx, name, off, dst)
	return n, s.look(name, err)
}

func (s *watchedSource) Size(ctx context.Context, name string) (int64, error) {
	n, err := s.Source.Size(ctx, name)
	return n, s.look(name, err)
}

// Costs are those of the source.
func (s *watchedSource) Costs() tsblock.Costs { return tsblock.CostsOf(s.Source) }

// Close closes idle files, of a source that has some.
func (s *watchedSource) Close() error {
	if c, ok := s.Source.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

func (s *watchedSource) look(name string, err error) error {
	if err == nil || !s.notFound(err) {
		return err
	}
	s.gone()
	return &goneError{name, err}
}

// A patientSource gives each attempt its time, and repeats those that fail.
type patientSource struct {
	source  *watchedSource
	bucket  objstore.Bucket
	timeout time.Duration
	tries   int
	retries *metrics
}

var _ tsblock.Source = (*patientSource)(nil)

// Costs are those of the source.
func (s *patientSource) Costs() tsblock.Costs { return s.source.Costs() }

func (s *patientSource) ReadRange(ctx context.Context, name string, off int64, dst []byte) (n int, err error) {
	err = s.do(ctx, func(ctx context.Context) error {
		n, err = s.source.ReadRange(ctx, name, off, dst)
		return err
	})
	return n, err
}

func (s *patientSource) Size(ctx context.Context, name string) (n int64, err error) {
	err = s.do(ctx, func(ctx context.Context) error {
		n, err = s.source.Size(ctx, name)
		return err
	})
	return n, err
}

func (s *patientSource) do(ctx context.Context, attempt func(context.Context) error) error {
	var err error
	for i := range s.tries {
		if i > 0 {
			s.retries.readRetries.Add(1)
			if sleep(ctx, backoff(i, 50*time.Millisecond, time.Second)) != nil {
				return err
			}
		}
		err = s.once(ctx, attempt)
		if err == nil || errors.Is(err, tsblock.ErrObjectEnd) || isGone(err) || ctx.Err() != nil || accessDenied(s.bucket, err) {
			return err
		}
	}
	return err
}

func (s *patientSource) once(ctx context.Context, attempt func(context.Context) error) error {
	own, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("%w: %s", errTimeout, s.timeout))
	defer cancel()
	err := attempt(own)
	if err != nil && own.Err() != nil {
		return context.Cause(own)
	}
	return err
}
