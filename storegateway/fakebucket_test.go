package storegateway

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thanos-io/objstore"
)

// A faultyBucket fails the calls that its rules name. It also counts.
type faultyBucket struct {
	objstore.Bucket

	calls, now, most atomic.Int64
	latency          time.Duration

	fired atomic.Int64 // rules that were followed

	mu    sync.Mutex
	rules []faultRule
	skip  int      // calls that no rule is for
	log   []string // calls, if logged
}

// A faultRule says which calls fail, and how.
type faultRule struct {
	op    string // iter, get, range, attributes; "": all
	name  string // a part of the object's name
	times int    // how often; -1: always
	fault fault
}

type fault string

const (
	faultError   fault = "error"   // before anything is done
	faultBroken  fault = "broken"  // an error after half of the bytes
	faultShort   fault = "short"   // half of the bytes, and no error
	faultHang    fault = "hang"    // nothing until the context ends
	faultStall   fault = "stall"   // half of the bytes, then nothing until the context ends
	faultDenied  fault = "denied"  //
	faultMissing fault = "missing" //
)

var (
	errFault  = errors.New("503 slow down")
	errDenied = errors.New("403 access denied")
)

// errMissing looks like what the memory bucket says.
type errMissing struct{ error }

var _ objstore.Bucket = (*faultyBucket)(nil)

func newFaultyBucket(b objstore.Bucket) *faultyBucket { return &faultyBucket{Bucket: b} }

func (b *faultyBucket) fail(r faultRule) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rules = append(b.rules, r)
}

// failCall is fail for what comes after so many calls.
func (b *faultyBucket) failCall(skip int, r faultRule) {
	b.fail(r)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.skip = skip
}

func (b *faultyBucket) heal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rules, b.skip = nil, 0
}

// enter counts a call and returns what is to happen to it.
func (b *faultyBucket) enter(ctx context.Context, op, name string) (fault, error) {
	b.calls.Add(1)
	for n := b.now.Add(1); ; {
		most := b.most.Load()
		if n <= most || b.most.CompareAndSwap(most, n) {
			break
		}
	}
	if b.latency > 0 {
		if err := sleep(ctx, b.latency); err != nil {
			return "", err
		}
	}
	b.mu.Lock()
	b.log = append(b.log, op+" "+name)
	var f fault
	if b.skip--; b.skip >= 0 {
		b.mu.Unlock()
		return "", ctx.Err()
	}
	b.skip = 0
	for i := range b.rules {
		r := &b.rules[i]
		if (r.op == "" || r.op == op) && strings.Contains(name, r.name) && r.times != 0 {
			r.times--
			f = r.fault
			b.fired.Add(1)
			break
		}
	}
	b.mu.Unlock()
	switch f {
	case faultError:
		return f, errFault
	case faultDenied:
		return f, errDenied
	case faultMissing:
		return f, errMissing{errors.New("404")}
	case faultHang:
		<-ctx.Done()
		return f, ctx.Err()
	}
	return f, ctx.Err()
}

func (b *faultyBucket) leave() { b.now.Add(-1) }

func (b *faultyBucket) Iter(ctx context.Context, dir string, f func(string) error, options ...objstore.IterOption) error {
	defer b.leave()
	fault, err := b.enter(ctx, "iter", dir)
	if err != nil {
		return err
	}
	var names []string
	if err := b.Bucket.Iter(ctx, dir, func(name string) error { names = append(names, name); return nil }, options...); err != nil {
		return err
	}
	for i, name := range names {
		if i == len(names)/2 {
			switch fault {
			case faultBroken:
				return errFault
			case faultStall:
				<-ctx.Done()
				return ctx.Err()
			}
		}
		if err := f(name); err != nil {
			return err
		}
	}
	return nil
}

func (b *faultyBucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	defer b.leave()
	fault, err := b.enter(ctx, "get", name)
	if err != nil {
		return nil, err
	}
	r, err := b.Bucket.Get(ctx, name)
	return faultyBody(ctx, r, fault), err
}

func (b *faultyBucket) GetRange(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	defer b.leave()
	fault, err := b.enter(ctx, "range", name)
	if err != nil {
		return nil, err
	}
	r, err := b.Bucket.GetRange(ctx, name, off, n)
	return faultyBody(ctx, r, fault), err
}

func (b *faultyBucket) Attributes(ctx context.Context, name string) (objstore.ObjectAttributes, error) {
	defer b.leave()
	if _, err := b.enter(ctx, "attributes", name); err != nil {
		return objstore.ObjectAttributes{}, err
	}
	return b.Bucket.Attributes(ctx, name)
}

func (b *faultyBucket) IsObjNotFoundErr(err error) bool {
	if _, ok := err.(errMissing); ok { //nolint:errorlint // as providers look
		return true
	}
	return b.Bucket.IsObjNotFoundErr(err)
}

func (b *faultyBucket) IsAccessDeniedErr(err error) bool {
	return err == errDenied //nolint:errorlint // as providers look
}

// faultyBody gives half of a body and then does what the fault says.
func faultyBody(ctx context.Context, r io.ReadCloser, f fault) io.ReadCloser {
	if r == nil || f != faultBroken && f != faultShort && f != faultStall {
		return r
	}
	text, err := io.ReadAll(r)
	if closeErr := r.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		panic(err)
	}
	var end io.Reader = strings.NewReader("")
	switch f {
	case faultBroken:
		end = readerFunc(func([]byte) (int, error) { return 0, errFault })
	case faultStall:
		end = readerFunc(func([]byte) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
	}
	return io.NopCloser(io.MultiReader(strings.NewReader(string(text[:len(text)/2])), end))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// upload puts an object into a bucket.
func upload(t testing.TB, b objstore.Bucket, name, text string) {
	t.Helper()
	if err := b.Upload(context.Background(), name, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}
