package follow

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// A CommonLog reads the binary log of one source once for several followers of the same tables, its members. It reads all rows from the oldest of
// their positions, and applies the plan of each member to them. A member is passed the changes that a separate reader would return, except that they
// start earlier and that batches end elsewhere. Both are allowed: changes may be applied again from an older position (package copier).
//
// A member that does not take its changes, since its target is slow or following is suspended, has up to a batch of them waiting. The others wait for it
// only for a time; then it reads the log independently from where it is. So does each member if their tables are not alike.
//
// Heartbeats of the members are written as those of one run, and count for the member that has written them.
type CommonLog struct {
	open     func(context.Context) (binlog.Follower, error)
	copy     string // key of the heartbeats
	run      string
	patience time.Duration // how long the others wait for a member
	heap     *atomic.Int64 // counts the heap bytes of changes that are not taken; nil: they are not counted

	mu       sync.Mutex
	members  []*LogMember // once starting: those that have joined
	starting bool         // each member has joined or left

	started chan struct{} // closed once the following are set, which do not change afterwards
	common  bool          // the log is read for all members

	source  binlog.Follower
	changes binlog.Changes
	end     context.CancelFunc
	done    chan struct{} // closed when nothing is read any more

	beating  chan struct{}    // a semaphore: acquired while a heartbeat is written
	beat     binlog.Heartbeat // the last one; guarded by beating
	detached atomic.Int64     // members that read independently after all
}

// laggardPatience is how long the other members of a CommonLog wait for one that does not take its changes.
const laggardPatience = 10 * time.Second

// NewCommonLog returns the members of a log that open connects to, one per source of a copy. copy is the key of their heartbeats. heap counts the heap
// bytes of changes that are not taken, unless it is nil.
func NewCommonLog(open func(context.Context) (binlog.Follower, error), copy string, sources []binlog.Follower, heap *atomic.Int64) []*LogMember {
	l := &CommonLog{
		open: open, copy: copy, heap: heap, run: strings.ToLower(rand.Text()), patience: laggardPatience,
		started: make(chan struct{}), done: make(chan struct{}), beating: make(chan struct{}, 1),
	}
	for _, s := range sources {
		l.members = append(l.members, &LogMember{Follower: s, l: l, wake: make(chan struct{}, 1), taken: make(chan struct{}, 1)})
	}
	return l.members
}

// start starts reading once no member is missing.
func (l *CommonLog) start(ctx context.Context) {
	l.mu.Lock()
	var joined []*LogMember
	for _, m := range l.members {
		if m.state == memberJoined {
			joined = append(joined, m)
		}
	}
	missing := slices.ContainsFunc(l.members, func(m *LogMember) bool { return m.state == memberExpected })
	first := !missing && !l.starting
	if first {
		l.starting, l.members = true, joined
	}
	l.mu.Unlock()
	if first {
		l.common = len(joined) > 1 && l.begin(ctx)
		close(l.started)
	}
}

// begin requests the log for all members, and reports whether it is read in common.
func (l *CommonLog) begin(ctx context.Context) bool {
	o, ok := commonOptions(l.members)
	if !ok {
		return false
	}
	for _, m := range l.members {
		if m.prepare() != nil {
			return false
		}
	}
	o.Run = l.run
	var err error
	if l.source, err = l.open(ctx); err != nil { // each member has its error of the source, if there is one
		return false
	}
	if l.changes, err = l.source.Follow(ctx, o); err != nil {
		_ = l.source.Close()
		return false
	}
	life, end := context.WithCancel(context.Background())
	l.end = end
	go l.read(life)
	return true
}

// commonOptions returns the options by which the log is read for all members; ok is false if they differ in more than their positions and plans, or if
// changes by foreign keys would have to be derived, which depends on the plans.
func commonOptions(members []*LogMember) (o binlog.FollowOptions, ok bool) {
	o = members[0].o
	o.Plans, o.Before, o.BatchBytes = nil, nil, binlog.DefaultFollowBytes
	o.Starts, o.Defined = slices.Clone(o.Starts), slices.Clone(o.Defined)
	for _, t := range o.Tables {
		keys, _, err := rowstream.CreateForeignKeys(t.Create)
		if err != nil || slices.ContainsFunc(keys, func(k rowstream.ForeignKey) bool { return k.Acts() }) {
			return o, false
		}
	}
	for _, m := range members {
		n := len(o.Tables)
		if len(m.o.Tables) != n || len(m.o.Starts) != n || len(m.o.Defined) != n || len(m.o.Layouts) != n || m.o.Run == "" || m.o.Skip != 0 {
			return o, false
		}
		for i, t := range m.o.Tables {
			if t.FullName() != o.Tables[i].FullName() || !t.SameShape(o.Tables[i]) || !slices.Equal(m.o.Layouts[i], o.Layouts[i]) ||
				!earliest(&o.Starts[i], m.o.Starts[i]) || !earliest(&o.Defined[i], m.o.Defined[i]) {
				return o, false
			}
		}
		if m.o.From.IsZero() || !earliest(&o.From, m.o.From) {
			return o, false
		}
	}
	return o, true
}

// earliest sets p to q if q is before p; a zero position is before all. It reports whether their order is known.
func earliest(p *binlog.Position, q binlog.Position) bool {
	if p.IsZero() || q.IsZero() {
		*p = binlog.Position{}
		return true
	}
	before, known := q.Before(*p)
	if before && known {
		*p = q
	}
	return known
}

// read passes the changes of the log to the members until none is left or it cannot be read any further.
func (l *CommonLog) read(ctx context.Context) {
	defer close(l.done)
	var raw binlog.ChangeBatch
	var weighed int64
	for left := true; left; {
		err := l.changes.Next(ctx, &raw)
		left = false
		for _, m := range l.members {
			if err != nil {
				m.stop(err)
			} else if m.pass(ctx, &raw) {
				left = true
			}
		}
		if raw.ReleaseWide(wideKeep); l.heap != nil {
			n := l.heapBytes() + raw.HeapBytes()
			l.heap.Add(n - weighed)
			weighed = n
		}
	}
	if l.heap != nil {
		l.heap.Add(-weighed)
	}
	_ = l.changes.Close() // nothing is lost: changes that were not applied are read again
	l.beating <- struct{}{}
	if l.beat.Run != "" { // no member writes heartbeats of the log any more
		_ = l.source.DeleteHeartbeat(context.WithoutCancel(ctx), l.beat) // a heartbeat that remains is that of the next run
	}
	<-l.beating
	_ = l.source.Close()
}

// heapBytes returns the heap bytes of the members' changes that are not taken.
func (l *CommonLog) heapBytes() (n int64) {
	for _, m := range l.members {
		m.mu.Lock()
		n += m.pending.HeapBytes()
		m.mu.Unlock()
	}
	return n
}

// reads reports whether reading the log in common has started.
func (l *CommonLog) reads() bool {
	select {
	case <-l.started:
		return l.common
	default:
		return false
	}
}
