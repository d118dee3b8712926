package copier_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/binlog"
)

// A countedSource counts the bytes of changes that it has returned.
type countedSource struct {
	binlog.Follower
	handed *atomic.Int64
}

func (s countedSource) Follow(ctx context.Context, o binlog.FollowOptions) (binlog.Changes, error) {
	c, err := s.Follower.Follow(ctx, o)
	return countedChanges{c, s.handed}, err
}

type countedChanges struct {
	binlog.Changes
	handed *atomic.Int64
}

func (c countedChanges) Next(ctx context.Context, b *binlog.ChangeBatch) error {
	err := c.Changes.Next(ctx, b)
	for i := range b.Tables {
		c.handed.Add(int64(len(b.Tables[i].Bytes)))
	}
	return err
}

// TestFollowBounded writes far more to the source than the target applies, while the target's table is
// locked. The changes in memory are bounded, and the rest waits in the source's log.
func TestFollowBounded(t *testing.T) {
	p := newPair(t, "bounded")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, c VARCHAR(1000))", "INSERT INTO a VALUES (0, 'first')")
	o := p.options("a")
	o.Follow, o.Control = true, filepath.Join(t.TempDir(), "c.sock")
	var handed atomic.Int64
	from := o.From
	o.Heartbeat.Off = true // the counting source does not support heartbeats
	o.From = func(ctx context.Context) (binlog.Follower, error) {
		s, err := from(ctx)
		if err != nil {
			return nil, err
		}
		return countedSource{s, &handed}, nil
	}
	caughtUp := make(chan struct{})
	once := sync.OnceFunc(func() { close(caughtUp) }) // a run that has lost its lease is followed by another
	lags := make(chan int64, 1)
	o.Observe = func(e telemetry.Event) {
		switch e.Kind {
		case telemetry.EventCaughtUp:
			once()
		case telemetry.EventLag:
			select {
			case <-lags:
			default:
			}
			if e.Lag.Bytes != nil {
				lags <- *e.Lag.Bytes
			}
		}
	}
	var running sync.WaitGroup
	var err error
	ended := make(chan struct{})
	running.Go(func() {
		defer close(ended)
		_, err = copier.Run(t.Context(), o)
	})
	select {
	case <-caughtUp:
	case <-ended:
		t.Fatal(err)
	case <-time.After(testwait.Limit):
		t.Fatal("waited too long for the copy to catch up")
	}
	holder := connect(t, root(p.to))
	sqlExec(t, holder, "LOCK TABLES bounded.a READ")
	const rows = 20_000 // of 1 KB
	for i := range 2 {
		sqlExec(t, p.source, "INSERT INTO a SELECT seq + "+strings.Repeat("10000 + ", i)+"0, REPEAT('x', 1000) FROM seq_1_to_10000")
	}
	const written = rows * 1000
	for { // until nothing moves any more: the lag is reported once per second
		before := handed.Load()
		for range 2 {
			select {
			case <-lags:
			case <-ended:
				t.Fatal(err)
			case <-time.After(testwait.Limit):
				t.Fatal("waited too long for the lag to be reported")
			}
		}
		if behind := testwait.Receive(t, "the lag to be reported", lags); behind > written && handed.Load() == before && before > 0 {
			break
		}
	}
	const most = 2 * (binlog.DefaultFollowBytes + 64<<10) // one batch is read while one is applied; a batch may exceed its limit by the rows of an event
	if n := handed.Load(); n > most {
		t.Errorf("%d bytes of changes are under way, of %d that were written; want %d at most", n, written, most)
	}
	sqlExec(t, holder, "UNLOCK TABLES")
	c := control.NewClient(o.Control)
	defer c.Close()
	if _, err := c.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	testwait.Group(t, "the copy to finish", &running)
	if err != nil {
		t.Fatal(err)
	}
	p.same(t, "a")
	if handed.Load() < written {
		t.Errorf("%d bytes of changes were handed out in all", handed.Load())
	}
}
