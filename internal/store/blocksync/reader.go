package blocksync

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/retry"
)

// A bucketReader reads small objects and lists directories. It limits the time of each attempt and retries
// failed ones. Queries do not read through it.
type bucketReader struct {
	bucket  objstore.Bucket
	timeout time.Duration // of an attempt; of a listing: between two names
	tries   int
	plain   bool          // no TLS protects the bytes read
	slots   chan struct{} // one slot per concurrent call
}

var _ lister = (*bucketReader)(nil)

var (
	errTooLong = errors.New("the object is longer than it may be")

	// errTimeout is the cause of the context of an attempt that timed out.
	errTimeout = errors.New("the bucket did not respond in time")
)

// A missingError reports that an object does not exist, for all kinds of buckets.
type missingError struct {
	bucket, name string
	err          error
}

func (e *missingError) Error() string { return fmt.Sprintf("%s is not in bucket %s", e.name, e.bucket) }
func (e *missingError) Unwrap() error { return e.err }

// IsNotFound reports whether err reports an object that is not in the bucket.
func IsNotFound(err error) bool {
	_, ok := errors.AsType[*missingError](err)
	return ok
}

// missingBlock returns the block of the missing object that err names, and the object's name in the block.
func missingBlock(err error) (tenant string, id ulid.ULID, file string, ok bool) {
	e, is := errors.AsType[*missingError](err)
	if !is {
		return "", id, "", false
	}
	parts := strings.Split(e.name, "/")
	for i, part := range parts { // a tenant may be named like a block
		if parsed, is := parseBlockID(part); is {
			tenant, id, file, ok = path.Join(parts[:i]...), parsed, path.Join(parts[i+1:]...), true
		}
	}
	return tenant, id, file, ok
}

// IsObjectNotFound reports whether a bucket's error means that the object does not exist. Providers unwrap errors of
// github.com/pkg/errors only.
func IsObjectNotFound(bucket objstore.BucketReader, err error) bool {
	return anyCause(err, bucket.IsObjNotFoundErr)
}

func accessDenied(bucket objstore.BucketReader, err error) bool {
	return anyCause(err, bucket.IsAccessDeniedErr)
}

func anyCause(err error, is func(error) bool) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if is(err) {
			return true
		}
	}
	return false
}

// do calls attempt until it succeeds, at most b.tries times, with exponential back-off.
func (b *bucketReader) do(ctx context.Context, name string, attempt func(context.Context, *time.Timer) error) error {
	// As soon as ctx is done, the bucket's error says more than the timeout.
	return retry.Policy{First: 100 * time.Millisecond, Most: 5 * time.Second, Tries: b.tries}.Do(ctx, func() error {
		err := b.once(ctx, attempt)
		switch {
		case err == nil:
			return nil
		case IsObjectNotFound(b.bucket, err):
			return retry.Final(&missingError{b.bucket.Name(), name, err})
		case accessDenied(b.bucket, err), errors.Is(err, errTooLong):
			return retry.Final(err)
		}
		return err
	})
}

// once makes one attempt, in a slot.
func (b *bucketReader) once(ctx context.Context, attempt func(context.Context, *time.Timer) error) error {
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(b.timeout, func() { cancel(fmt.Errorf("%w: %s", errTimeout, b.timeout)) })
	defer timer.Stop()
	err := attempt(ctx, timer)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // providers return "context canceled"
	}
	return err
}

// get returns an object of at most limit bytes.
func (b *bucketReader) get(ctx context.Context, name string, limit int64) ([]byte, error) {
	var text []byte
	err := b.do(ctx, name, func(ctx context.Context, _ *time.Timer) error {
		r, err := b.bucket.Get(ctx, name)
		if err != nil {
			return err
		}
		text, err = io.ReadAll(io.LimitReader(r, limit+1))
		if closeErr := r.Close(); err == nil {
			err = closeErr
		}
		if err == nil && int64(len(text)) > limit {
			err = errTooLong
		}
		return err
	})
	if err != nil && !IsNotFound(err) {
		err = fmt.Errorf("read %s: %w", name, err)
	}
	return text, err
}

// getConfirmed returns an object that has no checksum. Without TLS it reads the object twice and requires
// equal bytes: bytes changed by a network or a proxy would change results.
func (b *bucketReader) getConfirmed(ctx context.Context, name string) ([]byte, error) {
	text, err := b.get(ctx, name, maxMeta)
	if err != nil || !b.plain {
		return text, err
	}
	again, err := b.get(ctx, name, maxMeta)
	if err == nil && !bytes.Equal(text, again) {
		err = fmt.Errorf("read %s: two reads returned different bytes", name)
	}
	return text, err
}

// attributes returns the length and the modification time of an object.
func (b *bucketReader) attributes(ctx context.Context, name string) (a objstore.ObjectAttributes, err error) {
	err = b.do(ctx, name, func(ctx context.Context, _ *time.Timer) error {
		a, err = b.bucket.Attributes(ctx, name)
		return err
	})
	if err != nil && !IsNotFound(err) {
		err = fmt.Errorf("inspect %s: %w", name, err)
	}
	return a, err
}

// list visits the names in a directory; names of directories end in a slash. Each attempt starts with a call
// of begin.
func (b *bucketReader) list(ctx context.Context, dir string, recursive bool, begin func(), visit func(name string)) error {
	slashAtEnd := dir // keeps "a" from matching "ab" in buckets that know prefixes only
	if dir != "" {
		slashAtEnd += "/"
	}
	return b.listPrefix(ctx, slashAtEnd, recursive, begin, visit)
}

// listPrefix is list for a directory by its name with a slash, such as "/" for one with an empty name.
func (b *bucketReader) listPrefix(ctx context.Context, prefix string, recursive bool, begin func(), visit func(name string)) error {
	var options []objstore.IterOption
	if recursive {
		options = append(options, objstore.WithRecursiveIter())
	}
	err := b.do(ctx, strings.TrimSuffix(prefix, "/"), func(ctx context.Context, timer *time.Timer) error {
		begin()
		return b.bucket.Iter(ctx, prefix, func(name string) error {
			timer.Reset(b.timeout) // a long listing is healthy as long as it delivers names
			visit(name)
			return nil
		}, options...)
	})
	switch {
	case err == nil:
		return nil
	case prefix == "":
		return fmt.Errorf("list bucket %s: %w", b.bucket.Name(), err)
	}
	return fmt.Errorf("list %s in bucket %s: %w", prefix, b.bucket.Name(), err)
}
