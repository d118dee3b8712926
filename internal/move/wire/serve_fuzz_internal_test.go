package wire

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/rowstream"
)

// FuzzRequests sends arbitrary requests to a service.
func FuzzRequests(f *testing.F) {
	table := &rowpb.Table{Schema: "d", Name: "t"}
	for i, m := range []interface{ MarshalVT() ([]byte, error) }{
		&rowpb.ReadRequest{Snapshot: 1, Table: table, Chunk: &rowpb.Chunk{Number: 3, After: []byte("\x011"), Upto: []byte("\x012")}, Where: "id > 1", BatchBytes: 1, Compression: 1},
		&rowpb.ReadRequest{Snapshot: 1, Table: table, Plan: &rowpb.Plan{
			Where:  []*rowpb.Condition{{Column: 1, ShardIndex: 1, ShardCount: 2}, {Equal: []byte("x"), Compare: 3}},
			Output: []*rowpb.Output{{From: 1}, {From: 2, Column: 1}, {Column: -1}},
		}},
		&rowpb.CutRequest{Snapshot: 1, Worker: -1, Table: table, Bytes: 1, From: &rowpb.Chunk{After: []byte{1, '9'}}},
		&rowpb.SnapshotRequest{Workers: 1, Tables: []*rowpb.Table{table, {Columns: []*rowpb.Column{{Type: "int"}}, Key: []int32{7}}}},
		&rowpb.SumRequest{Snapshot: 1, Table: table, Columns: []int32{1, 0, 7}, Plan: &rowpb.Plan{Where: []*rowpb.Condition{{Column: 1, ShardIndex: 1, ShardCount: 2}}}},
		&rowpb.FollowRequest{From: "binlog.1 4", Skip: 2, BatchBytes: 1, PatienceMs: -1, Tables: []*rowpb.FollowedTable{{
			Table: tableMessage(must(testrows.NewMemory(1, testrows.Row("1", "2")).Describe(f.Context(), "d", "t"))),
			Match: termsOf(&rowstream.Predicate{Op: rowstream.And, Args: []rowstream.Predicate{{Op: rowstream.Not, Args: []rowstream.Predicate{{Op: rowstream.IsNull}}}, {Op: rowstream.In, Column: 1, Values: testrows.Values("1", "2")}}}, nil),
		}}},
		&rowpb.CheckFollowRequest{From: "gtid=x", Tables: []*rowpb.Table{table, {Columns: []*rowpb.Column{{Type: "int"}}, Key: []int32{7}}}},
		&rowpb.LogBytesRequest{From: "a 1", To: "b"},
	} {
		b, err := m.MarshalVT()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(i, b)
	}
	l := testrows.NewMemoryLog(func(n int) error {
		if n == 2 {
			return errors.New("that was all")
		}
		return nil
	})
	l.Memory = testrows.NewMemory(2, testrows.Row("1", "2"), testrows.Row("2", "3"))
	l.Updates(1, testrows.Row("1", "2"), testrows.Row("2", "3"))
	s, err := NewService(ServiceOptions{Server: l})
	if err != nil {
		f.Fatal(err)
	}
	tables, err := s.checkTables(f.Context(), []*rowpb.Table{tableMessage(must(s.o.Server.Describe(f.Context(), "d", "t")))})
	if err != nil {
		f.Fatal(err)
	}
	s.snapshots[1] = newServed(f.Context(), l.Memory.View(), 2, tables)
	f.Fuzz(func(t *testing.T, kind int, data []byte) {
		defer alloctest.Bounded(t, 64<<20)()
		var err error
		var sent []*rowpb.Batch
		decode := func(m any) error { return requestCodec{}.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, m) }
		switch kind % 8 {
		case 0, 1:
			var m rowpb.ReadRequest
			if decode(&m) != nil {
				return
			}
			err = s.Read(&m, fakeReadStream{ctx: t.Context(), sent: &sent})
		case 2:
			var m rowpb.CutRequest
			if decode(&m) != nil {
				return
			}
			_, err = s.Cut(t.Context(), &m)
		case 3:
			var m rowpb.SnapshotRequest
			if decode(&m) != nil {
				return
			}
			_, err = s.checkTables(t.Context(), m.GetTables())
			err = statusOf(err)
		case 4:
			var m rowpb.SumRequest
			if decode(&m) != nil {
				return
			}
			_, err = s.Sum(t.Context(), &m)
			if rowsErr := s.SumRows(&m, fakeReadStream{ctx: t.Context(), sent: &sent}); (rowsErr == nil) != (err == nil) {
				t.Errorf("sum: %v, sums of rows: %v", err, rowsErr)
			}
		case 5:
			var m rowpb.FollowRequest
			if decode(&m) != nil {
				return
			}
			err = s.Follow(&m, fakeFollowStream{ctx: t.Context()})
		case 6:
			var m rowpb.CheckFollowRequest
			if decode(&m) != nil {
				return
			}
			_, err = s.CheckFollow(t.Context(), &m)
		case 7:
			var m rowpb.LogBytesRequest
			if decode(&m) != nil {
				return
			}
			_, err = s.LogBytes(t.Context(), &m)
		}
		if _, ok := status.FromError(err); !ok {
			t.Errorf("%v is no status", err)
		}
		for _, b := range sent {
			r := remoteReader{v: &remoteView{r: &Remote{o: RemoteOptions{MaxMessage: 1 << 20}, zstd: must(newUnpacker(1 << 20))}}}
			r.message.Columns, r.message.Rows, r.message.Bytes, r.message.Unpacked = b.Columns, b.Rows, b.Bytes, b.Unpacked
			if err := r.open(int(b.Columns)); err != nil {
				t.Errorf("a batch of %d rows that was sent: %v", b.Rows, err)
			}
		}
	})
}

// FuzzReceived decodes arbitrary batches in a client.
func FuzzReceived(f *testing.F) {
	good := testrows.BatchOf(testrows.Row("1", nil), testrows.Row("", "x"))
	packed := new(rowpb.Batch)
	packed.Bytes, packed.Unpacked = pack(good.Bytes, must(newPacker()), nil)
	f.Add(2, int64(2), good.Bytes, uint32(0))
	f.Add(2, int64(2), packed.Bytes, packed.Unpacked)
	unpacker := must(newUnpacker(1 << 20))
	f.Fuzz(func(t *testing.T, columns int, rows int64, data []byte, unpacked uint32) {
		defer alloctest.Bounded(t, 64<<20)()
		r := remoteReader{v: &remoteView{r: &Remote{o: RemoteOptions{MaxMessage: 1 << 20}, zstd: unpacker}}}
		r.message.Columns, r.message.Rows, r.message.Bytes, r.message.Unpacked = int32(columns), rows, data, unpacked
		if r.open(columns) != nil || r.batch.Rows == 0 {
			return
		}
		if got := testrows.RowsOf(t, &r.batch); len(got) != int(rows) {
			t.Errorf("%d rows, want %d", len(got), rows)
		}
		if cap(r.room) > 1<<20+1<<16 {
			t.Errorf("%d bytes of room", cap(r.room))
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A fakeFollowStream accepts messages.
type fakeFollowStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s fakeFollowStream) Context() context.Context { return s.ctx }

func (s fakeFollowStream) Send(m *rowpb.Changes) error { return nil }

// A fakeReadStream collects messages.
type fakeReadStream struct {
	grpc.ServerStream
	ctx  context.Context
	sent *[]*rowpb.Batch
}

func (s fakeReadStream) Context() context.Context { return s.ctx }

func (s fakeReadStream) Send(b *rowpb.Batch) error {
	*s.sent = append(*s.sent, &rowpb.Batch{Columns: b.Columns, Rows: b.Rows, Bytes: bytes.Clone(b.Bytes), Read: b.Read, Unpacked: b.Unpacked})
	return nil
}
