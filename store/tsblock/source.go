package tsblock

import "context"

// A Source provides the bytes of blocks' objects. It must be safe for concurrent use. Names are those of the
// bucket, with slashes: "tenant/ULID/chunks/000001".
type Source interface {
	// ReadRange fills dst with the object's bytes from offset off and returns the number of bytes read:
	// len(dst) without an error, or fewer with an error. The error is ErrObjectEnd if the object ends before
	// dst is full, or before off; dst then has the bytes that exist. Any other error, including io.EOF, is a
	// failed read. ReadRange must not use dst after it has returned, even if ctx is done.
	ReadRange(ctx context.Context, name string, off int64, dst []byte) (int, error)

	// Size returns the length of the object.
	Size(ctx context.Context, name string) (int64, error)
}

// Costs describe the costs of reading from a source.
type Costs struct {
	// Gap is the number of bytes whose transfer costs about as much as another call: ranges with a smaller
	// distance are read as one.
	Gap int64

	// Calls is the maximum of concurrent calls of one reader. With 1 it reads in its own goroutine, one range
	// after the other.
	Calls int
}

// Costs of sources without a method Costs. They suit an object store over a network: a call takes as long as
// half a megabyte.
const (
	defaultGap   = 512 << 10
	defaultCalls = 16
)

// CostsOf returns the result of a source's method Costs() Costs, or the defaults if it has none. A source
// that wraps another should have that method and delegate it.
func CostsOf(s Source) Costs {
	c := Costs{Gap: defaultGap, Calls: defaultCalls}
	if own, ok := s.(interface{ Costs() Costs }); ok {
		c = own.Costs()
	}
	c.Gap, c.Calls = max(c.Gap, 0), max(c.Calls, 1)
	return c
}
