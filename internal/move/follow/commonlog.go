package follow

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
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

// A LogMember is the source of one follower, whose log is read in common. Follow is called once, or Leave.
type LogMember struct {
	binlog.Follower
	l *CommonLog

	state memberState // guarded by l.mu

	o       binlog.FollowOptions
	columns []int
	filters []*rowstream.Filter // nil entries pass all rows
	keeps   [][]bool            // columns of before images that are needed; nil entries: all
	row     mysqlwire.TextRow
	marks   []batchMark
	first   int // the pending change that is the first of the current transaction

	wake, taken chan struct{} // signaled when pending is filled, and when it is taken

	mu      sync.Mutex
	pending binlog.ChangeBatch // read and not taken
	past    bool               // the log is read beyond the member's position
	news    bool               // pending is to be taken
	err     error              // the log ends after pending
	apart   bool               // the member reads independently after pending
	closed  bool
	upto    binlog.Position // of pending
	beats   []memberBeat    // that were not read, the oldest first
	number  uint64          // of the member's last heartbeat that was read

	own binlog.Changes // once the member reads independently; used by Next, and under mu
}

// A batchMark is the size of a batch.
type batchMark struct{ bytes, rows int }

// A memberBeat is a heartbeat of the log, and its number for the member that has written it.
type memberBeat struct{ common, number uint64 }

// A memberState is how far a member is.
type memberState uint8

const (
	memberExpected memberState = iota
	memberJoined
	memberLeft
)

var _ binlog.Changes = (*LogMember)(nil)

// Leave has the others not wait for the member to call Follow. It does nothing afterwards.
func (m *LogMember) Leave() {
	m.l.mu.Lock()
	left := m.state == memberExpected
	if left {
		m.state = memberLeft
	}
	m.l.mu.Unlock()
	if left {
		m.l.start(context.Background())
	}
}

// Follow implements binlog.Follower: it blocks until each member has called Follow or has left.
func (m *LogMember) Follow(ctx context.Context, o binlog.FollowOptions) (binlog.Changes, error) {
	m.o, m.upto = o, o.From
	m.l.mu.Lock()
	m.state = memberJoined
	m.l.mu.Unlock()
	m.l.start(ctx)
	select {
	case <-m.l.started:
	case <-ctx.Done():
		_ = m.Close() // it has read nothing
		m.l.mu.Lock()
		m.state = memberLeft
		m.l.mu.Unlock()
		m.l.start(context.WithoutCancel(ctx))
		return nil, context.Cause(ctx)
	}
	if !m.l.common {
		return m.Follower.Follow(ctx, o)
	}
	return m, nil
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

// prepare creates the member's filters.
func (m *LogMember) prepare() error {
	for i, t := range m.o.Tables {
		var f *rowstream.Filter
		columns := len(t.Columns)
		if i < len(m.o.Plans) && m.o.Plans[i] != nil {
			var err error
			if f, err = rowstream.NewFilter(m.o.Plans[i], columns); err != nil {
				return err
			}
			columns = f.Columns()
		}
		var keep []bool
		if i < len(m.o.Before) && m.o.Before[i] != nil {
			keep = make([]bool, columns)
			for _, k := range m.o.Before[i] {
				keep[k] = true
			}
		}
		m.columns, m.filters, m.keeps = append(m.columns, columns), append(m.filters, f), append(m.keeps, keep)
	}
	m.pending.Reset(m.columns, 2*binlog.DefaultFollowBytes)
	return nil
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

// stop ends the member's changes with an error.
func (m *LogMember) stop(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.err = err
	}
	signal(m.wake)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pass adds the member's changes of a batch to those that wait for it, and reports whether the member is passed further ones. If a batch of them is
// waiting, it blocks until that is taken, or until the patience is over: then the member reads independently.
func (m *LogMember) pass(ctx context.Context, raw *binlog.ChangeBatch) bool {
	var late <-chan time.Time
	for {
		m.mu.Lock()
		if m.closed || m.apart || m.err != nil {
			m.mu.Unlock()
			return false
		}
		if size(&m.pending) < binlog.DefaultFollowBytes {
			defer m.mu.Unlock()
			return m.add(raw)
		}
		m.mu.Unlock()
		if late == nil {
			timer := time.NewTimer(m.l.patience)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-m.taken:
		case <-ctx.Done():
			return false
		case <-late:
			m.mu.Lock()
			m.apart = true
			m.mu.Unlock()
			m.l.detached.Add(1)
			signal(m.wake)
			return false
		}
	}
}

// size returns the bytes of rows in a batch.
func size(b *binlog.ChangeBatch) (n int) {
	for i := range b.Tables {
		n += len(b.Tables[i].Bytes)
	}
	return n
}

// add adds the member's changes of a batch. m.mu must be locked.
func (m *LogMember) add(raw *binlog.ChangeBatch) bool {
	if !m.past {
		if before, known := raw.Upto.Before(m.o.From); before && known { // the target has all of it
			return true
		}
		m.past = true
	}
	p := &m.pending
	if !m.news {
		p.Reset(m.columns, 2*binlog.DefaultFollowBytes)
		m.first = 0
	}
	m.marks = m.marks[:0]
	for i := range p.Tables {
		m.marks = append(m.marks, batchMark{len(p.Tables[i].Bytes), p.Tables[i].Rows})
	}
	changes := len(p.Changes)
	for i := range raw.Changes {
		if m.err = m.change(raw, &raw.Changes[i]); m.err == nil {
			continue
		}
		for t, mark := range m.marks { // those before m.upto remain
			p.Tables[t].Bytes, p.Tables[t].Rows = p.Tables[t].Bytes[:mark.bytes], mark.rows
		}
		p.Changes = p.Changes[:changes]
		signal(m.wake)
		return false
	}
	for len(m.beats) > 0 && m.beats[0].common <= raw.Heartbeat {
		m.number = m.beats[0].number
		m.beats = m.beats[1:]
	}
	p.Upto, p.Boundary, p.Idle, p.Commit, p.Heartbeat = raw.Upto, raw.Boundary, raw.Idle, raw.Commit, m.number
	m.news, m.upto = true, raw.Upto
	signal(m.wake)
	return true
}

// change adds a change of a row, if it is one of the member's.
func (m *LogMember) change(raw *binlog.ChangeBatch, c *binlog.Change) (err error) {
	p, own := &m.pending, binlog.Change{Table: c.Table, Before: -1, After: -1}
	if c.Before >= 0 {
		own.Before, err = m.image(raw, c.Before, int(c.Table), true)
	}
	if err == nil && c.After >= 0 {
		own.After, err = m.image(raw, c.After, int(c.Table), false)
	}
	if err != nil {
		t := m.o.Tables[c.Table]
		stop := &binlog.StopError{
			Reason: binlog.StopUnknown, At: m.upto, Table: t.FullName(), What: "its rows in the log cannot be read",
			Try: "report it with the table's definition, and copy the table again with --restart", Err: err,
		}
		if missing := new(rowstream.LookupError); errors.As(err, &missing) {
			stop.What, stop.Try = "a row in the log belongs to no shard", "values may be added while the log is followed"
		}
		return stop
	}
	switch {
	case own.Before >= 0 && own.After >= 0:
		own.Kind = binlog.Update
	case own.Before >= 0:
		own.Kind = binlog.Delete
	case own.After >= 0:
		own.Kind = binlog.Insert
	}
	if own.Kind != 0 {
		p.Changes = append(p.Changes, own)
	}
	if n := len(p.Changes); c.LastOfTransaction {
		if n > m.first {
			p.Changes[n-1].LastOfTransaction = true
		}
		m.first = n
	}
	return nil
}

// image adds an image of a row and returns its offset, -1 if the plan excludes it.
func (m *LogMember) image(raw *binlog.ChangeBatch, at, table int, before bool) (int, error) {
	if _, err := raw.Tables[table].Row(at, &m.row); err != nil {
		return 0, err
	}
	out := m.row
	if f := m.filters[table]; f != nil {
		var ok bool
		if out, ok = f.Apply(m.row); !ok {
			return -1, f.Err()
		}
	}
	if keep := m.keeps[table]; before && keep != nil {
		for i := range out {
			if !keep[i] {
				out[i] = nil
			}
		}
	}
	t := &m.pending.Tables[table]
	at = len(t.Bytes)
	t.AppendRow(out)
	return at, nil
}

// Next implements binlog.Changes.
func (m *LogMember) Next(ctx context.Context, b *binlog.ChangeBatch) error {
	for {
		m.mu.Lock()
		switch {
		case m.closed:
			m.mu.Unlock()
			return binlog.ErrClosed
		case m.own != nil:
			own := m.own
			m.mu.Unlock()
			return own.Next(ctx, b)
		case m.news:
			*b, m.pending = m.pending, *b
			m.pending.Reset(m.columns, 2*binlog.DefaultFollowBytes)
			m.news, m.first = false, 0
			m.mu.Unlock()
			signal(m.taken)
			return nil
		case m.err != nil:
			defer m.mu.Unlock()
			return m.err
		}
		apart, o := m.apart, m.o
		o.From = m.upto
		m.mu.Unlock()
		if apart {
			if err := m.readApart(ctx, o); err != nil {
				return err
			}
			continue
		}
		select {
		case <-m.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// readApart has the member read the log independently from a position.
func (m *LogMember) readApart(ctx context.Context, o binlog.FollowOptions) error {
	own, err := m.Follower.Follow(ctx, o)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil:
		m.err = err
		return err
	case m.closed:
		return errors.Join(binlog.ErrClosed, own.Close())
	}
	m.own = own
	return nil
}

// Reconnect requests the log again.
func (m *LogMember) Reconnect() {
	m.mu.Lock()
	changes := m.own
	m.mu.Unlock()
	if changes == nil {
		changes = m.l.changes
	}
	if again, ok := changes.(reconnecter); ok {
		again.Reconnect()
	}
}

// Close implements binlog.Changes. The last member to call it ends the log.
func (m *LogMember) Close() (err error) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	if m.own != nil {
		err = m.own.Close()
	}
	m.mu.Unlock()
	signal(m.wake)
	signal(m.taken)
	if !m.l.reads() {
		return err
	}
	for _, other := range m.l.members {
		other.mu.Lock()
		reads := !other.closed && !other.apart
		other.mu.Unlock()
		if reads {
			return err
		}
	}
	m.l.end()
	<-m.l.done
	return err
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

// WriteHeartbeat implements binlog.Follower. While the log is read in common, the heartbeat is one of the log.
func (m *LogMember) WriteHeartbeat(ctx context.Context, h binlog.Heartbeat) error {
	m.mu.Lock()
	apart := m.apart
	m.mu.Unlock()
	if apart || !m.l.reads() {
		return m.Follower.WriteHeartbeat(ctx, h)
	}
	select {
	case m.l.beating <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-m.l.beating }()
	common := h
	common.Copy, common.Run, common.Number = m.l.copy, m.l.run, m.l.beat.Number+1
	m.l.beat = common
	m.mu.Lock()
	m.beats = append(m.beats, memberBeat{common.Number, h.Number})
	m.mu.Unlock()
	return m.l.source.WriteHeartbeat(ctx, common)
}
