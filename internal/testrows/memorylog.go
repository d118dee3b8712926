package testrows

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// A MemoryLog is a Memory whose log repeats one batch.
type MemoryLog struct {
	*Memory
	Changes binlog.ChangeBatch
	Pace    time.Duration // between batches
	Taken   atomic.Int64  // batches that were read
	Asked   binlog.FollowOptions

	after func(n int) error
}

var _ binlog.Follower = (*MemoryLog)(nil)

// NewMemoryLog returns a server with a log. It calls after after n batches, before the next: its error is returned by
// Next, but ErrWait makes Next wait until its context is done. If after is nil, there is always another batch.
func NewMemoryLog(after func(n int) error) *MemoryLog {
	l := &MemoryLog{Memory: NewMemory(1, Row("1", "2")), after: after}
	l.Changes.Upto, l.Changes.Boundary, l.Changes.Commit = binlog.Position{File: "binlog.1", Offset: 10}, true, time.Unix(1000, 0)
	return l
}

// CheckFollow implements Follower.
func (l *MemoryLog) CheckFollow(context.Context, []*rowstream.Table, binlog.Position) error {
	return nil
}

// CurrentPosition implements Follower.
func (l *MemoryLog) CurrentPosition(context.Context) (binlog.Position, error) {
	return l.Changes.Upto, nil
}

// LogBytes implements Follower.
func (l *MemoryLog) LogBytes(context.Context, binlog.Position, binlog.Position) (int64, error) {
	return 0, errors.New("it is in memory")
}

// GTIDPosition implements Follower.
func (l *MemoryLog) GTIDPosition(context.Context) (binlog.Position, error) {
	return l.Changes.Upto, nil
}

// WriteHeartbeat implements Follower.
func (l *MemoryLog) WriteHeartbeat(context.Context, binlog.Heartbeat) error { return nil }

// CheckHeartbeat implements Follower.
func (l *MemoryLog) CheckHeartbeat(context.Context, binlog.Heartbeat) error { return nil }

// DeleteHeartbeat implements Follower.
func (l *MemoryLog) DeleteHeartbeat(context.Context, binlog.Heartbeat) error { return nil }

// Layout implements Follower.
func (l *MemoryLog) Layout(_ context.Context, t *rowstream.Table) ([]int, error) {
	layout := make([]int, len(t.Columns))
	for i := range layout {
		layout[i] = i
	}
	return layout, nil
}

// SchemaChanges implements Follower.
func (l *MemoryLog) SchemaChanges(context.Context, []*rowstream.Table, binlog.Position, binlog.Position) ([]binlog.SchemaChange, error) {
	return nil, nil
}

// Follow implements Follower.
func (l *MemoryLog) Follow(_ context.Context, o binlog.FollowOptions) (binlog.Changes, error) {
	l.Asked = o
	return &memoryChanges{l: l}, nil
}

// memoryChanges are the changes of a MemoryLog.
type memoryChanges struct {
	l *MemoryLog
	n int
}

// Next implements Changes.
func (c *memoryChanges) Next(ctx context.Context, b *binlog.ChangeBatch) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if c.l.after != nil {
		if err := c.l.after(c.n); err != nil {
			if errors.Is(err, ErrWait) {
				<-ctx.Done()
				err = context.Cause(ctx)
			}
			return err
		}
	}
	if c.l.Pace > 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(c.l.Pace):
		}
	}
	c.n++
	c.l.Taken.Add(1)
	*b = c.l.Changes
	return nil
}

// Close implements Changes.
func (*memoryChanges) Close() error { return nil }

// ErrWait makes the log wait until its reader has disconnected.
var ErrWait = errors.New("nothing comes any more")

// Updates fills the log's batch with n updates of a table of two columns.
func (l *MemoryLog) Updates(n int, before, after mysqlwire.TextRow) {
	l.Changes.Tables = make([]rowstream.Batch, 1)
	t := &l.Changes.Tables[0]
	t.Reset(2)
	l.Changes.Changes = nil
	for i := range n {
		c := binlog.Change{Kind: binlog.Update, Before: len(t.Bytes), LastOfTransaction: i == n-1}
		t.AppendRow(before)
		c.After = len(t.Bytes)
		t.AppendRow(after)
		l.Changes.Changes = append(l.Changes.Changes, c)
	}
}
