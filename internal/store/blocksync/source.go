package blocksync

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/store/tsblock"
)

// newSource returns the source that a gateway reads blocks from.
func newSource(bucket objstore.Bucket, o Options, gone func(), m *metrics) tsblock.Source {
	if o.LocalBucket != "" {
		return &watchedSource{Source: tsblock.Dir(o.LocalBucket), bucket: o.LocalBucket, gone: gone, metrics: m, notFound: isNotExist}
	}
	s := &watchedSource{
		Source: tsblock.Bucket[objstore.ObjectAttributes](bucket), bucket: bucket.Name(), gone: gone, metrics: m,
		notFound: func(err error) bool { return IsObjectNotFound(bucket, err) },
	}
	if bucket.Provider() == objstore.FILESYSTEM {
		s.Source = newFileSource(o.Bucket, s.Source)
		return s // a failed read of a file does not succeed later
	}
	return &patientSource{source: s, timeout: o.CallTimeout, tries: o.CallTries, hedge: o.CallHedge, metrics: m, bucket: bucket}
}

// A watchedSource requests a sync when an object is missing that should exist: the bucket has changed, and
// the sooner a sync finds out, the fewer queries fail.
type watchedSource struct {
	tsblock.Source
	bucket   string // name of the bucket, for errors
	gone     func()
	metrics  *metrics
	notFound func(error) bool
}

// A BucketError reports that the bucket did not return an object, or a part of it, although the object
// exists. A retry may succeed.
type BucketError struct {
	Bucket, Object string
	Err            error
}

// Error names the bucket and the object, whose directory is that of its block.
func (e *BucketError) Error() string {
	return fmt.Sprintf("bucket %s: read %s: %v", e.Bucket, e.Object, e.Err)
}

// Unwrap returns the bucket's error.
func (e *BucketError) Unwrap() error { return e.Err }

var _ tsblock.Source = (*watchedSource)(nil)

func (s *watchedSource) ReadRange(ctx context.Context, name string, off int64, dst []byte) (int, error) {
	n, err := s.Source.ReadRange(ctx, name, off, dst)
	s.metrics.blockRead(n, err)
	return n, s.checkError(ctx, name, err)
}

func (s *watchedSource) Size(ctx context.Context, name string) (int64, error) {
	n, err := s.Source.Size(ctx, name)
	return n, s.checkError(ctx, name, err)
}

// Costs returns the costs of the source.
func (s *watchedSource) Costs() tsblock.Costs { return tsblock.CostsOf(s.Source) }

// Close closes idle files, if the source has any.
func (s *watchedSource) Close() error {
	if c, ok := s.Source.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

func (s *watchedSource) checkError(ctx context.Context, name string, err error) error {
	switch {
	case err == nil || errors.Is(err, tsblock.ErrObjectEnd) || ctx.Err() != nil:
		return err
	case s.notFound(err):
		s.gone()
		return &missingError{s.bucket, name, err}
	}
	return &BucketError{s.bucket, name, err}
}
