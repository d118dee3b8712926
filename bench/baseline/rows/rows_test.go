package rows

import (
	"bytes"
	"testing"
	"time"

	"vitess.io/vitess/go/sqltypes"
	querypb "vitess.io/vitess/go/vt/proto/query"

	"github.com/taredb/tare/internal/tick"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// payload returns a row of sysbench's tables.
func payload() []byte {
	return mysqlwire.TextRow{
		[]byte("1234567"), []byte("998877"), bytes.Repeat([]byte("0123456789-"), 11)[:119], bytes.Repeat([]byte("0123456789-"), 6)[:59],
	}.AppendTo(nil)
}

// TestSame expects both implementations to write the same file for LOAD DATA.
func TestSame(t *testing.T) {
	in := mysqlwire.TextRow{[]byte("1"), nil, []byte("a\tb\nc\\d"), []byte{}}
	row, err := ParseRow(in.AppendTo(nil), 4)
	if err != nil {
		t.Fatal(err)
	}
	row, ok := (&Plan{Index: 1, Count: 1, Output: []int{2, 1, 3, 0}}).Filter(row)
	if !ok {
		t.Fatal("a plan of one share holds a row back")
	}
	if row, err = FromMessage(ToMessage(row)); err != nil {
		t.Fatal(err)
	}
	plan := &rowstream.Plan{Where: []rowstream.Condition{{Shard: rowstream.Shard{Index: 1, Count: 1}}}, Output: []rowstream.Output{{Column: 2}, {Column: 1}, {Column: 3}, {Column: 0}}}
	f, err := rowstream.NewFilter(plan, 4)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := f.Apply(in)
	var b rowstream.Batch
	b.Reset(4)
	b.AppendRow(out)
	want, err := rowstream.AppendLoad(nil, &b)
	if err != nil {
		t.Fatal(err)
	}
	if got := AppendLoad(nil, row); !bytes.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// An endless is an infinite sequence of packets with the same payload, with their sequence numbers.
type endless struct {
	payload []byte
	packet  []byte
	rest    []byte // rest of packet
	seq     uint8
}

func (e *endless) Read(b []byte) (int, error) {
	if len(e.rest) == 0 {
		e.packet, e.seq = mysqlwire.AppendPacket(e.packet[:0], e.payload, e.seq)
		e.rest = e.packet
	}
	n := copy(b, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func BenchmarkRow(b *testing.B) {
	data := payload()
	b.Run("1 packet/twin", func(b *testing.B) {
		c := NewConn(&endless{payload: data}, 0)
		run(b, data, func() error { _, err := c.ReadPacket(); return err })
	})
	b.Run("2 parse/twin", func(b *testing.B) {
		run(b, data, func() error { _, err := ParseRow(data, 4); return err })
	})
	b.Run("2 parse/tare", func(b *testing.B) {
		var row mysqlwire.TextRow
		run(b, data, func() error { return row.Decode(data, 4) })
	})
	row, _ := ParseRow(data, 4)
	var view mysqlwire.TextRow
	if err := view.Decode(data, 4); err != nil {
		b.Fatal(err)
	}
	b.Run("3 message/twin", func(b *testing.B) {
		run(b, data, func() error { ToMessage(row); return nil })
	})
	values := make([]sqltypes.Value, 4)
	for i := range values {
		values[i] = sqltypes.MakeTrusted(querypb.Type_VARCHAR, view[i])
	}
	b.Run("3 message/vitess", func(b *testing.B) {
		var m querypb.Row
		run(b, data, func() error { sqltypes.RowToProto3Inplace(values, &m); return nil })
	})
	b.Run("3 message/tare", func(b *testing.B) {
		var m rowstream.Batch
		run(b, data, func() error {
			m.Reset(4)
			m.AppendPayload(data)
			return nil
		})
	})
	b.Run("4 throttle/twin", func(b *testing.B) {
		t := &Throttle{Interval: time.Hour, Ask: func() bool { return true }}
		run(b, data, func() error { t.OK(); return nil })
	})
	b.Run("4 throttle/tare", func(b *testing.B) {
		t := tick.NewThrottle(tick.Process(), func() bool { return true })
		defer t.Close()
		run(b, data, func() error { t.OK(); return nil })
	})
	b.Run("5 filter/twin", func(b *testing.B) {
		p := &Plan{Index: 1, Count: 1, Output: []int{0, 1, 2, 3}}
		run(b, data, func() error { p.Filter(row); return nil })
	})
	b.Run("5 filter/tare", func(b *testing.B) {
		f, err := rowstream.NewFilter(&rowstream.Plan{
			Where:  []rowstream.Condition{{Shard: rowstream.Shard{Index: 1, Count: 1}}},
			Output: []rowstream.Output{{Column: 0}, {Column: 1}, {Column: 2}, {Column: 3}},
		}, 4)
		if err != nil {
			b.Fatal(err)
		}
		run(b, data, func() error { f.Apply(view); return nil })
	})
}

func run(b *testing.B, data []byte, op func() error) {
	b.Helper()
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := op(); err != nil {
			b.Fatal(err)
		}
	}
}
