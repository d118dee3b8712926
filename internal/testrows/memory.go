package testrows

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// A Memory is a rowstream.Server whose tables all have the same shape, and whose rows are generated as they are read.
type Memory struct {
	Batch   rowstream.Batch // each read returns it Batches times
	Batches int
	Err     error         // if set, reads return it
	Handed  atomic.Int64  // batches that were read
	Closed  chan struct{} // receives a value for each view that is closed
}

// NewMemory returns a server whose reads return a batch of rows several times.
func NewMemory(batches int, rows ...mysqlwire.TextRow) *Memory {
	return &Memory{Batch: *BatchOf(rows...), Batches: batches, Closed: make(chan struct{}, 100)}
}

var _ rowstream.Server = (*Memory)(nil)

// Addr implements Server.
func (m *Memory) Addr() string { return "memory" }

// Identity implements Server.
func (m *Memory) Identity(context.Context) (string, error) { return "", nil }

// Close implements Server.
func (m *Memory) Close() error { return nil }

// ShortView implements Server: there are none.
func (m *Memory) ShortView(context.Context, string, *rowstream.Table, time.Duration) (rowstream.View, error) {
	return nil, errors.New("it is in memory")
}

// Describe implements Server: a table of integers named a, b, and so on, with the first as its key.
func (m *Memory) Describe(_ context.Context, schema, name string) (*rowstream.Table, error) {
	t := &rowstream.Table{Schema: schema, Name: name, Key: []int{0}, KeyName: "PRIMARY", Engine: "InnoDB"}
	for i := range m.Batch.Columns {
		t.Columns = append(t.Columns, rowstream.Column{Name: string(rune('a' + i)), Type: "int", FullType: "int"})
	}
	return t, nil
}

// Snapshot implements Server.
func (m *Memory) Snapshot(context.Context, int, []*rowstream.Table) (rowstream.View, error) {
	return MemoryView{m}, nil
}

// A MemoryView is a view of a Memory.
type MemoryView struct{ m *Memory }

// How implements View.
func (MemoryView) How() string { return "memory" }

// Position implements View.
func (MemoryView) Position() string { return "binlog.1 4" }

// Identity implements View.
func (MemoryView) Identity() string { return "" }

// Reader implements View.
func (v MemoryView) Reader(int) rowstream.ViewReader { return memoryReader{m: v.m} }

// Close implements View.
func (v MemoryView) Close() error { v.m.Closed <- struct{}{}; return nil }

// View returns a view.
func (m *Memory) View() MemoryView { return MemoryView{m} }

// A memoryReader sums up the rows that it reads.
type memoryReader struct {
	rowstream.ViewReader
	m *Memory
}

// SumChunk implements ViewReader.
func (r memoryReader) SumChunk(ctx context.Context, t *rowstream.Table, c rowstream.Chunk, o rowstream.SumOptions) (sum rowstream.Checksum, err error) {
	for row, err := range r.SumRows(ctx, t, c, o) {
		if err != nil {
			return sum, err
		}
		sum.Rows++
		sum.Sum ^= row.Sum
	}
	return sum, nil
}

// SumRows implements ViewReader.
func (r memoryReader) SumRows(ctx context.Context, t *rowstream.Table, c rowstream.Chunk, o rowstream.SumOptions) iter.Seq2[rowstream.RowSum, error] {
	return rowstream.SumRead(ctx, r, t, c, o)
}

// Cut implements ViewReader.
func (r memoryReader) Cut(_ context.Context, _ *rowstream.Table, _ int64, from rowstream.Chunk) (rowstream.Chunk, error) {
	return rowstream.Chunk{Number: from.Number, After: from.After, Upto: mysqlwire.TextRow{[]byte("9")}}, nil
}

// Read implements ViewReader. A condition that starts with "refuse" is refused by its text.
func (r memoryReader) Read(ctx context.Context, _ *rowstream.Table, _ rowstream.Chunk, o rowstream.ReadOptions) iter.Seq2[*rowstream.Batch, error] {
	return func(yield func(*rowstream.Batch, error) bool) {
		if r.m.Err != nil {
			yield(nil, r.m.Err)
			return
		}
		if strings.HasPrefix(o.Where, "refuse") {
			yield(nil, errors.New(o.Where))
			return
		}
		if o.Count == nil {
			o.Count = new(int64)
		}
		for range r.m.Batches {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if *o.Count += int64(r.m.Batch.Rows); !yield(&r.m.Batch, nil) {
				return
			}
			r.m.Handed.Add(1)
		}
	}
}
