package tsblock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
)

// Objects is the part of a bucket that a bucketSource requires. objstore.Bucket implements it, with A being
// objstore.ObjectAttributes: any struct with a field Size of type int64 will do.
type Objects[A any] interface {
	// GetRange returns a reader of length bytes of the object from off, or of fewer if the object ends
	// before.
	GetRange(ctx context.Context, name string, off, length int64) (io.ReadCloser, error)
	Attributes(ctx context.Context, name string) (A, error)
}

// A bucketSource reads objects of a bucket by ranges. A call of ReadRange makes one call of GetRange.
type bucketSource[A any] struct {
	objects Objects[A]
	size    []int // index of the field Size of A
	costs   Costs
	probes  sync.Pool // of *[1]byte
}

var _ Source = (*bucketSource[struct{ Size int64 }])(nil)

// Bucket returns a source of a bucket's objects, with the default costs, which suit a network.
func Bucket[A any](b Objects[A]) Source {
	return bucketWithCosts(b, Costs{Gap: defaultGap, Calls: defaultCalls})
}

// bucketWithCosts returns a source of a bucket's objects.
func bucketWithCosts[A any](b Objects[A], c Costs) *bucketSource[A] {
	t := reflect.TypeFor[A]()
	if t.Kind() != reflect.Struct {
		panic(fmt.Sprintf("BUG: attributes of objects are a %s, which has no size", t))
	}
	size, ok := t.FieldByName("Size")
	if !ok || size.Type.Kind() != reflect.Int64 {
		panic(fmt.Sprintf("BUG: attributes of objects are a %s, which has no size", t))
	}
	return &bucketSource[A]{objects: b, size: size.Index, costs: c}
}

// Costs returns the costs of reading from the bucket.
func (s *bucketSource[A]) Costs() Costs { return s.costs }

// ReadRange implements Source.
func (s *bucketSource[A]) ReadRange(ctx context.Context, name string, off int64, dst []byte) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	r, err := s.objects.GetRange(ctx, name, off, int64(len(dst)))
	if err != nil {
		return 0, err
	}
	n, err := fill(r, dst)
	more := n == len(dst) && err == nil && s.continues(r)
	closed := r.Close()
	switch {
	case more:
		return 0, errNoRange
	case n == len(dst):
		return n, nil // all bytes arrived: an error of Close does not matter
	case err != io.EOF: //nolint:errorlint // wrapped, it is an error of reading and no end
		return n, err
	case ctx.Err() != nil:
		return n, context.Cause(ctx) // a cancelled read can look like the end of the object
	case closed != nil:
		return n, closed // and so can a broken connection
	case off > 0 && int64(n) > off: // otherwise this may be the whole object
		return s.checkTail(ctx, name, off, n)
	default:
		return n, ErrObjectEnd
	}
}

// checkTail compares the size of an object with the end of a response that is shorter than its range.
func (s *bucketSource[A]) checkTail(ctx context.Context, name string, off int64, n int) (int, error) {
	size, err := s.Size(ctx, name)
	switch {
	case err != nil:
		return 0, err
	case size == off+int64(n):
		return n, ErrObjectEnd
	case size == int64(n):
		return 0, errNoRange
	}
	return 0, errTruncated
}

// continues reports whether a response has a byte after its range.
func (s *bucketSource[A]) continues(r io.Reader) bool {
	probe, _ := s.probes.Get().(*[1]byte)
	if probe == nil {
		probe = new([1]byte)
	}
	defer s.probes.Put(probe)
	n, _ := fill(r, probe[:]) // a failure after the range does not matter
	return n > 0
}

// fill reads until dst is full or r returns an error. Unlike io.ReadFull it distinguishes a body that has
// ended from a truncated one.
func fill(r io.Reader, dst []byte) (n int, err error) {
	for idle := 0; n < len(dst) && err == nil; {
		var m int
		m, err = r.Read(dst[n:])
		n += m
		if idle++; m > 0 {
			idle = 0
		} else if idle == maxIdle && err == nil {
			err = io.ErrNoProgress
		}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errTruncated
	}
	return n, err
}

// maxIdle bounds consecutive reads of a body that return neither bytes nor an error.
const maxIdle = 100

// errTruncated reports that a response of the bucket ended before its announced length. It is not the end of the
// object.
var errTruncated = errors.New("the bucket's response ended early")

// errNoRange reports that a bucket returned more bytes than the range, like servers and proxies that ignore
// ranges and return the whole object: the bytes are those of its beginning.
var errNoRange = errors.New("the response is longer than the requested range: the bucket, or a proxy before it, ignores ranges")

// Size implements Source.
func (s *bucketSource[A]) Size(ctx context.Context, name string) (int64, error) {
	a, err := s.objects.Attributes(ctx, name)
	if err != nil {
		return 0, err
	}
	return reflect.ValueOf(a).FieldByIndex(s.size).Int(), nil
}
