package wire

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream"
)

// A memoryLog is a memory whose log repeats one batch.
type memoryLog struct {
	*memory
	b     binlog.ChangeBatch
	after func(n int) error // called after n batches, before the next; nil: there is always another one
	pace  time.Duration     // between batches
	taken atomic.Int64
	asked binlog.FollowOptions
}

var _ binlog.Follower = (*memoryLog)(nil)

func newMemoryLog(after func(int) error, changes ...binlog.Change) *memoryLog {
	l := &memoryLog{memory: newMemory(1, testrows.Row("1", "2")), after: after}
	l.b.Upto, l.b.Boundary, l.b.Commit = binlog.Position{File: "binlog.1", Offset: 10}, true, time.Unix(1000, 0)
	l.b.Changes = changes
	return l
}

func (l *memoryLog) CheckFollow(context.Context, []*rowstream.Table, binlog.Position) error {
	return nil
}

func (l *memoryLog) CurrentPosition(context.Context) (binlog.Position, error) { return l.b.Upto, nil }

func (l *memoryLog) LogBytes(context.Context, binlog.Position, binlog.Position) (int64, error) {
	return 0, errors.New("it is in memory")
}

func (l *memoryLog) GTIDPosition(context.Context) (binlog.Position, error) { return l.b.Upto, nil }

func (l *memoryLog) WriteHeartbeat(context.Context, binlog.Heartbeat) error { return nil }

func (l *memoryLog) CheckHeartbeat(context.Context, binlog.Heartbeat) error { return nil }

func (l *memoryLog) DeleteHeartbeat(context.Context, binlog.Heartbeat) error { return nil }

func (l *memoryLog) Layout(_ context.Context, t *rowstream.Table) ([]int, error) {
	layout := make([]int, len(t.Columns))
	for i := range layout {
		layout[i] = i
	}
	return layout, nil
}

func (l *memoryLog) SchemaChanges(context.Context, []*rowstream.Table, binlog.Position, binlog.Position) ([]binlog.SchemaChange, error) {
	return nil, nil
}

func (l *memoryLog) Follow(_ context.Context, o binlog.FollowOptions) (binlog.Changes, error) {
	l.asked = o
	return &memoryChanges{l: l}, nil
}

type memoryChanges struct {
	l *memoryLog
	n int
}

func (c *memoryChanges) Next(ctx context.Context, b *binlog.ChangeBatch) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if c.l.after != nil {
		if err := c.l.after(c.n); err != nil {
			if errors.Is(err, errWait) {
				<-ctx.Done()
				err = context.Cause(ctx)
			}
			return err
		}
	}
	if c.l.pace > 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(c.l.pace):
		}
	}
	c.n++
	c.l.taken.Add(1)
	*b = c.l.b
	return nil
}

func (*memoryChanges) Close() error { return nil }

// errWait makes a log of memory wait until its reader has disconnected.
var errWait = errors.New("nothing comes any more")

// updates fills the log's batch with n updates of a table of two columns.
func (l *memoryLog) updates(n int, before, after mysqlwire.TextRow) {
	l.b.Tables = make([]rowstream.Batch, 1)
	t := &l.b.Tables[0]
	t.Reset(2)
	l.b.Changes = nil
	for i := range n {
		c := binlog.Change{Kind: binlog.Update, Before: len(t.Bytes), LastOfTransaction: i == n-1}
		t.AppendRow(before)
		c.After = len(t.Bytes)
		t.AppendRow(after)
		l.b.Changes = append(l.b.Changes, c)
	}
}

// followMemory follows a log of memory over a wire.
func followMemory(t testing.TB, l rowstream.Server, o ServiceOptions, c Compression) (*Service, binlog.Changes) {
	t.Helper()
	o.Server = l
	s, addr := serve(t, o)
	r := open(t, RemoteOptions{Addr: addr, Compression: c, Token: o.Token})
	table, err := r.Describe(t.Context(), "d", "t")
	if err != nil {
		t.Fatal(err)
	}
	changes, err := r.Follow(t.Context(), binlog.FollowOptions{From: binlog.Position{File: "binlog.1", Offset: 4}, Tables: []*rowstream.Table{table}, Patience: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := changes.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, changes
}
