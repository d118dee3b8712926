package history

import (
	"encoding/binary"

	"github.com/taredb/tare/stmtstats"
)

// counts are what was counted of something over a time.
type counts struct {
	calls, nanos           uint64
	rowsSent, rowsAffected uint64
	bytesSent              uint64
	errors                 [stmtstats.ErrorClasses]uint64
}

func (c *counts) failed() (n uint64) {
	for _, e := range c.errors {
		n += e
	}
	return n
}

func (c *counts) add(o *counts) {
	c.calls += o.calls
	c.nanos += o.nanos
	c.rowsSent += o.rowsSent
	c.rowsAffected += o.rowsAffected
	c.bytesSent += o.bytesSent
	for i, n := range o.errors {
		c.errors[i] += n
	}
}

// subtract takes away what o has; of what is less than that nothing remains.
func (c *counts) subtract(o *counts) {
	v, w := c.values(), o.values()
	for i := range v {
		v[i] -= min(v[i], w[i])
	}
	*c = countsFrom(&v)
}

// values are the counts as columns from colCalls on have them.
func (c *counts) values() (v [numCounts]uint64) {
	v[0], v[1], v[2], v[3], v[4] = c.calls, c.nanos, c.rowsSent, c.rowsAffected, c.bytesSent
	copy(v[colErrors-colCalls:], c.errors[:])
	return v
}

func countsFrom(v *[numCounts]uint64) counts {
	c := counts{calls: v[0], nanos: v[1], rowsSent: v[2], rowsAffected: v[3], bytesSent: v[4]}
	copy(c.errors[:], v[colErrors-colCalls:])
	return c
}

// appendTo appends all counts as varints.
func (c *counts) appendTo(dst []byte) []byte {
	for _, v := range c.values() {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}
