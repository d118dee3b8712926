package follow

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

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
			Try: "report it with the table's definition, and copy the table again with option restart", Err: err,
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
