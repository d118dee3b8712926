package tsblock

import "context"

// A Source is where the bytes of blocks' objects come from. It is safe for concurrent use. Names
// are those of the bucket, with slashes: "tenant/ULID/chunks/000001".
type Source interface {
	// ReadRange fills dst with the object's bytes from offset off on and returns how many it
	// read: all of dst and no error, or fewer and an error. The error is ErrObjectEnd if
	// the object ends before dst is full, also when it ends before off; the bytes that
	// were there are in dst then. Any other error, io.EOF included, is a failed read. dst is
	// the caller's again when ReadRange returns, also when ctx has ended.
	ReadRange(ctx context.Context, name string, off int64, dst []byte) (int, error)

	// Size returns the length of the object.
	Size(ctx context.Context, name string) (int64, error)
}

// Costs say how a source is best read.
type Costs struct {
	// Gap is how many bytes cost about as much as another call: ranges that lie closer to one
	// another are read as one.
	Gap int64

	// Calls is how many calls one reader has under way at most. With 1 it reads in its own
	// goroutine, one range after the other.
	Calls int
}

// Costs of sources that do not tell their own, as for an object store behind a network: a call
// takes as long as half a megabyte.
const (
	DefaultGap   = 512 << 10
	DefaultCalls = 16
)

// CostsOf returns what a source says of itself by a method Costs() Costs, or the defaults. A
// source that wraps another should have that method and ask the other.
func CostsOf(s Source) Costs {
	c := Costs{Gap: DefaultGap, Calls: DefaultCalls}
	if own, ok := s.(interface{ Costs() Costs }); ok {
		c = own.Costs()
	}
	c.Gap, c.Calls = max(c.Gap, 0), max(c.Calls, 1)
	return c
}
