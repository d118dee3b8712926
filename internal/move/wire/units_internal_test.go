package wire

import (
	"math"
	"testing"
	"time"

	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestMillis has durations of messages, which may be any number.
func TestMillis(t *testing.T) {
	const day = 24 * time.Hour
	for n, want := range map[int64]time.Duration{
		math.MinInt64: 0, -1: 0, 0: 0, 1: time.Millisecond, 1500: 1500 * time.Millisecond, day.Milliseconds() - 1: day - time.Millisecond, day.Milliseconds(): day,
		day.Milliseconds() + 1: day, math.MaxInt64: day,
	} {
		if got := millis(n); got != want {
			t.Errorf("%d: %v, want %v", n, got, want)
		}
	}
}

// TestReadOptionsOf has requests whose plans fit a table of two columns, and others.
func TestReadOptionsOf(t *testing.T) {
	for name, tt := range map[string]struct {
		m     *rowpb.ReadRequest
		bytes int // of batches
		fails bool
	}{
		"no plan":                      {&rowpb.ReadRequest{}, 0, false},
		"small batches":                {&rowpb.ReadRequest{BatchBytes: 1}, minBatchBytes, false},
		"batches":                      {&rowpb.ReadRequest{BatchBytes: minBatchBytes + 1}, minBatchBytes + 1, false},
		"large batches":                {&rowpb.ReadRequest{BatchBytes: math.MaxInt32}, maxBatchBytes, false},
		"negative batches":             {&rowpb.ReadRequest{BatchBytes: -1}, minBatchBytes, false},
		"the last column":              {&rowpb.ReadRequest{Plan: &rowpb.Plan{Output: []*rowpb.Output{{Column: 1}}}}, 0, false},
		"a column after the last":      {&rowpb.ReadRequest{Plan: &rowpb.Plan{Output: []*rowpb.Output{{Column: 2}}}}, 0, true},
		"a column before the first":    {&rowpb.ReadRequest{Plan: &rowpb.Plan{Output: []*rowpb.Output{{Column: -1}}}}, 0, true},
		"a condition on the last":      {&rowpb.ReadRequest{Plan: &rowpb.Plan{Where: []*rowpb.Condition{{Column: 1, ShardIndex: 1, ShardCount: 2}}}}, 0, false},
		"a condition after the last":   {&rowpb.ReadRequest{Plan: &rowpb.Plan{Where: []*rowpb.Condition{{Column: 2, ShardIndex: 1, ShardCount: 2}}}}, 0, true},
		"a shard that does not exist":  {&rowpb.ReadRequest{Plan: &rowpb.Plan{Where: []*rowpb.Condition{{Column: 1, ShardIndex: 3, ShardCount: 2}}}}, 0, true},
		"an unknown comparison":        {&rowpb.ReadRequest{Plan: &rowpb.Plan{Where: []*rowpb.Condition{{Compare: uint32(rowstream.Temporal) + 1}}}}, 0, true},
		"a shard before the first one": {&rowpb.ReadRequest{Plan: &rowpb.Plan{Where: []*rowpb.Condition{{Column: 1, ShardIndex: 0, ShardCount: 2}}}}, 0, true},
	} {
		o, err := readOptionsOf(tt.m, 2)
		if (err != nil) != tt.fails || o.BatchBytes != tt.bytes {
			t.Errorf("%s: batches of %d bytes, %v", name, o.BatchBytes, err)
		}
	}
}

// TestShrink has the memory of large transactions released, and that of small ones kept.
func TestShrink(t *testing.T) {
	for _, size := range []int{8, 9} {
		p := &changePacker{keep: 8, rows: make([]byte, 0, size), packed: make([]byte, 0, size)}
		p.message.Rows, p.message.Layout = p.rows, make([]byte, 0, size)
		p.shrink()
		kept := 0
		if size == 8 {
			kept = 8
		}
		if p.message.Rows != nil || cap(p.rows) != kept || cap(p.packed) != kept || cap(p.message.Layout) != kept {
			t.Errorf("%d bytes, of which 8 may be kept: %d, %d and %d are", size, cap(p.rows), cap(p.packed), cap(p.message.Layout))
		}
	}
}

// TestKeptRoom has the memory of messages received kept up to a bound.
func TestKeptRoom(t *testing.T) {
	for _, size := range []int{8, 9} {
		kept := 0
		if size == 8 {
			kept = 8
		}
		buffer := func() []byte { return make([]byte, 3, size) }
		r := &remoteReader{room: buffer()}
		r.message.Bytes, r.message.Rows, r.message.Unpacked, r.batch.Bytes = buffer(), 3, 9, buffer()
		if r.reset(8); cap(r.message.Bytes) != kept || len(r.message.Bytes) != 0 || cap(r.room) != kept || r.batch.Bytes != nil || r.message.Rows != 0 || r.message.Unpacked != 0 {
			t.Errorf("a reader's %d bytes, of which 8 may be kept: %d and %d are", size, cap(r.message.Bytes), cap(r.room))
		}
		c := &changeRoom{unpacked: buffer()}
		c.message.Rows, c.message.Layout, c.message.Upto, c.message.Skip, c.message.Idle = buffer(), buffer(), "x", 3, true
		c.reset(8)
		if m := &c.message; cap(m.Rows) != kept || cap(m.Layout) != kept || cap(c.unpacked) != kept || len(m.Rows)+len(m.Layout) != 0 || m.Upto != "" || m.Skip != 0 || m.Idle {
			t.Errorf("%d bytes of changes, of which 8 may be kept: %d, %d and %d are", size, cap(m.Rows), cap(m.Layout), cap(c.unpacked))
		}
	}
}
