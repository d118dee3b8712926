package testbucket

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

// A Failing bucket fails the calls selected by its rules. It also counts and records calls.
type Failing struct {
	objstore.Bucket

	Calls   atomic.Int64 // since its creation
	Most    atomic.Int64 // maximum of concurrent calls
	Fired   atomic.Int64 // rules that were applied
	Latency time.Duration

	now atomic.Int64

	mu    sync.Mutex
	rules []FailRule
	skip  int // calls before the rules apply
	log   []string
}

// A FailRule selects calls, and how they fail.
type FailRule struct {
	Op    string // iter, get, range, attributes; "": all
	Name  string // a substring of the object's name
	Times int    // number of times; -1: always
	How   Failure
}

// A Failure is a way in which a call fails.
type Failure string

// The failures.
const (
	FailError   Failure = "error"   // before any effect
	FailBroken  Failure = "broken"  // an error after half of the bytes
	FailShort   Failure = "short"   // half of the bytes, and no error
	FailHang    Failure = "hang"    // nothing until the context is done
	FailStall   Failure = "stall"   // half of the bytes, then nothing until the context is done
	FailDenied  Failure = "denied"  //
	FailMissing Failure = "missing" //
)

var (
	errFault  = errors.New("503 slow down")
	errDenied = errors.New("403 access denied")
)

// errMissing resembles the error of the memory bucket.
type errMissing struct{ error }

var _ objstore.Bucket = (*Failing)(nil)

// NewFailing returns a bucket without rules.
func NewFailing(b objstore.Bucket) *Failing { return &Failing{Bucket: b} }

// Fail adds a rule.
func (b *Failing) Fail(r FailRule) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rules = append(b.rules, r)
}

// FailCall is Fail for the calls after the first skip ones.
func (b *Failing) FailCall(skip int, r FailRule) {
	b.Fail(r)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.skip = skip
}

// Heal removes all rules.
func (b *Failing) Heal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rules, b.skip = nil, 0
}

// enter counts a call and returns its failure.
func (b *Failing) enter(ctx context.Context, op, name string) (Failure, error) {
	b.Calls.Add(1)
	for n := b.now.Add(1); ; {
		most := b.Most.Load()
		if n <= most || b.Most.CompareAndSwap(most, n) {
			break
		}
	}
	if b.Latency > 0 {
		select {
		case <-time.After(b.Latency): // paces: the calls
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	b.mu.Lock()
	b.log = append(b.log, op+" "+name)
	var f Failure
	if b.skip--; b.skip >= 0 {
		b.mu.Unlock()
		return "", ctx.Err()
	}
	b.skip = 0
	for i := range b.rules {
		r := &b.rules[i]
		if (r.Op == "" || r.Op == op) && strings.Contains(name, r.Name) && r.Times != 0 {
			r.Times--
			f = r.How
			b.Fired.Add(1)
			break
		}
	}
	b.mu.Unlock()
	switch f {
	case FailError:
		return f, errFault
	case FailDenied:
		return f, errDenied
	case FailMissing:
		return f, errMissing{errors.New("404")}
	case FailHang:
		<-ctx.Done()
		return f, ctx.Err()
	}
	return f, ctx.Err()
}

func (b *Failing) leave() { b.now.Add(-1) }

// Iter implements objstore.BucketReader.
func (b *Failing) Iter(ctx context.Context, dir string, f func(string) error, options ...objstore.IterOption) error {
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
			case FailBroken:
				return errFault
			case FailStall:
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

// Get implements objstore.BucketReader.
func (b *Failing) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	defer b.leave()
	fault, err := b.enter(ctx, "get", name)
	if err != nil {
		return nil, err
	}
	r, err := b.Bucket.Get(ctx, name)
	return failingBody(ctx, r, fault), err
}

// GetRange implements objstore.BucketReader.
func (b *Failing) GetRange(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	defer b.leave()
	fault, err := b.enter(ctx, "range", name)
	if err != nil {
		return nil, err
	}
	r, err := b.Bucket.GetRange(ctx, name, off, n)
	return failingBody(ctx, r, fault), err
}

// Attributes implements objstore.BucketReader.
func (b *Failing) Attributes(ctx context.Context, name string) (objstore.ObjectAttributes, error) {
	defer b.leave()
	if _, err := b.enter(ctx, "attributes", name); err != nil {
		return objstore.ObjectAttributes{}, err
	}
	return b.Bucket.Attributes(ctx, name)
}

// IsObjNotFoundErr implements objstore.BucketReader.
func (b *Failing) IsObjNotFoundErr(err error) bool {
	if _, ok := err.(errMissing); ok { //nolint:errorlint // as providers look
		return true
	}
	return b.Bucket.IsObjNotFoundErr(err)
}

// IsAccessDeniedErr implements objstore.BucketReader.
func (b *Failing) IsAccessDeniedErr(err error) bool {
	return err == errDenied //nolint:errorlint // as providers look
}

// failingBody returns half of a body and then applies the failure.
func failingBody(ctx context.Context, r io.ReadCloser, f Failure) io.ReadCloser {
	if r == nil || f != FailBroken && f != FailShort && f != FailStall {
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
	case FailBroken:
		end = readerFunc(func([]byte) (int, error) { return 0, errFault })
	case FailStall:
		end = readerFunc(func([]byte) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
	}
	return io.NopCloser(io.MultiReader(strings.NewReader(string(text[:len(text)/2])), end))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TakeCalls returns the calls since the previous call of TakeCalls, in order.
func (b *Failing) TakeCalls() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	calls := b.log
	b.log = nil
	return calls
}

// Upload puts an object into a bucket.
func Upload(t testing.TB, b objstore.Bucket, name, text string) {
	t.Helper()
	if err := b.Upload(context.Background(), name, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}
