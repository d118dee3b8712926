package rollup

import (
	"encoding/binary"

	"github.com/taredb/tare/history/stmtstats"
)

// Counts are the calls in a range of time, and their effects.
type Counts struct {
	Calls, Nanos           uint64
	RowsSent, RowsAffected uint64
	BytesSent              uint64
	Errors                 [stmtstats.ErrorClasses]uint64
}

// CountsOf returns the counts of a sample.
func CountsOf(s *stmtstats.Sample) Counts {
	return Counts{
		Calls: s.Calls, Nanos: s.Histogram.Nanos, RowsSent: s.RowsSent, RowsAffected: s.RowsAffected,
		BytesSent: s.BytesSent, Errors: s.Errors,
	}
}

// Any reports whether a call was counted, or time of one in flight.
func (c *Counts) Any() bool { return c.Calls > 0 || c.Nanos > 0 }

// Failed returns the number of errors of all classes.
func (c *Counts) Failed() (n uint64) {
	for _, e := range c.Errors {
		n += e
	}
	return n
}

// Add adds o to c.
func (c *Counts) Add(o *Counts) {
	c.Calls += o.Calls
	c.Nanos += o.Nanos
	c.RowsSent += o.RowsSent
	c.RowsAffected += o.RowsAffected
	c.BytesSent += o.BytesSent
	for i, n := range o.Errors {
		c.Errors[i] += n
	}
}

// Subtract subtracts o from c. Counts below those of o become 0.
func (c *Counts) Subtract(o *Counts) {
	v, w := c.values(), o.values()
	for i := range v {
		v[i] -= min(v[i], w[i])
	}
	*c = countsFrom(&v)
}

// values returns the counts in the order of the columns from ColCalls on.
func (c *Counts) values() (v [numCounts]uint64) {
	v[0], v[1], v[2], v[3], v[4] = c.Calls, c.Nanos, c.RowsSent, c.RowsAffected, c.BytesSent
	copy(v[ColErrors-ColCalls:], c.Errors[:])
	return v
}

func countsFrom(v *[numCounts]uint64) Counts {
	c := Counts{Calls: v[0], Nanos: v[1], RowsSent: v[2], RowsAffected: v[3], BytesSent: v[4]}
	copy(c.Errors[:], v[ColErrors-ColCalls:])
	return c
}

// appendTo appends all counts as varints.
func (c *Counts) appendTo(dst []byte) []byte {
	for _, v := range c.values() {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}
