package tsblock

import (
	"context"
	"encoding/binary"
	"math"
	"strings"

	"github.com/taredb/tare/internal/slab"
)

// tableAhead is the read-ahead in the table where many values are read.
const tableAhead = 16 * pageSize

// A tableWalk iterates over the values of a label name, from the start of a run.
type tableWalk struct {
	w      walk
	usage  *Usage
	number uint64 // index of the next value of the name
	left   uint64
	end    int64 // end of the previous list

	// The value that next read, valid until the next call, and its list.
	value     []byte
	off, size int64
}

// walkTable returns a walk at the start of a run of n.
func (r *Reader) walkTable(n *labelName, run int, what slab.Purpose, ahead int64) tableWalk {
	set := &r.scratch.local
	set.init(r.head.file, what, &r.stats.Table)
	t := tableWalk{w: walk{set: set}, usage: &r.stats.Table}
	t.w.start(n.runs[run].at, n.end, ahead)
	t.number = uint64(run) * sampleEvery
	if t.number < n.values {
		t.left = n.values - t.number
	}
	return t
}

// jump moves to the start of a run of n.
func (t *tableWalk) jump(n *labelName, run int) {
	t.w.seek(n.runs[run].at)
	t.number, t.left = uint64(run)*sampleEvery, 0
	if t.number < n.values {
		t.left = n.values - t.number
	}
}

// next reads a value and reports whether there was one.
func (t *tableWalk) next(ctx context.Context) (bool, error) {
	if t.left == 0 {
		return false, nil
	}
	if t.number%sampleEvery == 0 {
		t.end = 0
	}
	t.left--
	t.number++
	n, err := t.w.uvarint(ctx)
	if err != nil {
		return false, err
	}
	if t.value, err = t.w.bytes(ctx, n); err != nil {
		return false, err
	}
	// Reading numbers does not move value: only bytes copies data that spans pages.
	behind, err := t.varint(ctx)
	if err != nil {
		return false, err
	}
	size, err := t.w.uvarint(ctx)
	if err != nil {
		return false, err
	}
	t.off, t.size = t.end+behind, int64(size)
	if t.off < 0 || t.size < 0 || t.off > math.MaxInt64-t.size {
		return false, t.w.corrupt(badLength)
	}
	t.end = t.off + t.size
	t.usage.Items++
	t.usage.Touched += int64(n) + 4
	return true, nil
}

// eachValue calls f for each value of n with a prefix, in order, with its list, until f returns false. The
// value is valid during the call.
func (r *Reader) eachValue(ctx context.Context, n *labelName, prefix string, what slab.Purpose, f func(value string, off, size int64) (bool, error)) error {
	t := r.walkTable(n, max(n.run(prefix), 0), what, tableAhead)
	defer r.scratch.local.reset()
	for i := 0; ; i++ {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		ok, err := t.next(ctx)
		if err != nil || !ok {
			return err
		}
		value := view(t.value)
		if value == "" || !strings.HasPrefix(value, prefix) {
			if value > prefix {
				return nil
			}
			continue // an empty value means that the label is missing
		}
		if more, err := f(value, t.off, t.size); err != nil || !more {
			return err
		}
	}
}

func (t *tableWalk) varint(ctx context.Context) (int64, error) {
	v, err := t.w.uvarint(ctx)
	return int64(v>>1) ^ -int64(v&1), err
}

// uvarint decodes a number like binary.Uvarint; one byte is the common case.
func uvarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return binary.Uvarint(b)
}
