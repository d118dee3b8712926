package serverstats

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	mysqlsession "github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/sqldigest"
)

const (
	// slowTicks is the number of consecutive seconds with a slow statement before locks are read.
	slowTicks = 2

	// Locks are read every minLockPause while sessions wait for them, and less often, down to every maxLockPause, while
	// statements are slow for another reason.
	minLockPause = 2 * time.Second
	maxLockPause = 30 * time.Second

	// sameWait is the maximum time between two readings of the same wait.
	sameWait = 2 * maxLockPause
)

// A lockWatch has the waits for locks and decides when to read them.
type lockWatch struct {
	slow  int           // consecutive seconds with a slow statement; used by Run only, as the next two
	pause time.Duration // between readings
	next  time.Time     // of the next reading

	waits   []LockWait       // guarded by Reader.mu, as the next: the oldest first
	read    time.Time        // the last reading
	blocked map[uint32]Block // of it, by the waiting connection
	problem string           // reason for which locks or their holders are unknown; "" if they are known
}

// due reports whether locks are to be read now. slow is the number of sessions with a slow statement.
func (w *lockWatch) due(slow int, now time.Time) bool {
	if slow == 0 {
		w.slow, w.pause, w.next = 0, 0, time.Time{}
		return false
	}
	w.slow++
	return w.slow >= slowTicks && !now.Before(w.next)
}

// schedule sets the time of the next reading.
func (w *lockWatch) schedule(found bool, now time.Time) {
	w.pause = min(max(2*w.pause, minLockPause), maxLockPause)
	if found {
		w.pause = minLockPause
	}
	w.next = now.Add(w.pause)
}

// readLocks reads the waits for locks and records them.
func (r *Reader) readLocks(ctx context.Context, now time.Time) {
	began := time.Now()
	found, note, err := r.tryLocks(ctx, now)
	if ctx.Err() != nil {
		return
	}
	r.locks.schedule(len(found) > 0, now)
	r.mu.Lock()
	r.seconds += time.Since(began).Seconds()
	r.lockReadings++
	r.locks.problem = note
	if err != nil {
		r.locks.problem = "Waits for locks unavailable: " + reason(err) + "."
	}
	var fresh []LockWait
	for _, w := range found {
		if r.locks.record(w) {
			fresh = append(fresh, w)
		}
	}
	r.mu.Unlock()
	if r.opts.Locked != nil {
		for _, w := range fresh {
			r.opts.Locked(w)
		}
	}
}

// record adds a wait, or extends the same one of a recent reading. It reports whether the wait is new.
func (w *lockWatch) record(found LockWait) (fresh bool) {
	for i := range w.waits {
		known := &w.waits[i]
		if known.Holder.Connection != found.Holder.Connection || known.Kind != found.Kind || known.Table != found.Table || found.To.Sub(known.To) > sameWait {
			continue
		}
		known.To, known.Holder.Transaction = found.To, found.Holder.Transaction
		known.Waiters, known.Longest = max(known.Waiters, found.Waiters), max(known.Longest, found.Longest)
		for _, d := range found.Waiting {
			if len(known.Waiting) < maxWaiting && !slices.Contains(known.Waiting, d) {
				known.Waiting = append(slices.Clip(known.Waiting), d)
			}
		}
		return false
	}
	if len(w.waits) == keptWaits {
		w.waits = slices.Delete(w.waits, 0, 1)
	}
	w.waits = append(w.waits, found)
	return true
}

// tryLocks reads the waits for locks once.
func (r *Reader) tryLocks(ctx context.Context, now time.Time) (found []LockWait, note string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*CallTime)
	defer cancel()
	conn, err := r.client.Conn(ctx)
	if err != nil {
		return nil, "", err
	}
	defer r.client.Release()
	// The start times of transactions are in the system's time zone.
	if err := mysqlsession.Set(ctx, conn, mysqlsession.Value{Name: "time_zone", SQL: "'SYSTEM'"}); err != nil {
		return nil, "", fmt.Errorf("set time zone: %w", err)
	}
	edges, note, err := readEdges(ctx, conn, r.client.Server().Kind, r.opts.TablesOf)
	if err != nil {
		return nil, "", err
	}
	r.setBlocked(edges)
	for _, p := range pileUps(edges) {
		w, err := r.describe(ctx, conn, p, now)
		if err != nil {
			return nil, "", err
		}
		found = append(found, w)
	}
	return found, note, nil
}

// describe reads the holder and some of the waiting sessions of a pile-up.
func (r *Reader) describe(ctx context.Context, conn *mysqlconn.Client, p pileUp, now time.Time) (LockWait, error) {
	ids := append([]uint32{p.holder}, p.waiters[:min(len(p.waiters), maxWaiting)]...)
	sessions, err := readSessions(ctx, conn, r.client.Server().Kind, ids)
	if err != nil {
		return LockWait{}, err
	}
	transactions, err := readTransactions(ctx, conn, ids)
	if err != nil {
		return LockWait{}, err
	}
	text, cut, err := lastStatement(ctx, conn, p.holder)
	if err != nil {
		return LockWait{}, err
	}
	holder := sessions[p.holder]
	if text == "" || cut && len(holder.text) >= len(text) { // the list of processes has whole texts, of running statements
		text, cut = holder.text, false
	}
	mode := sqldigest.Mode(0).WithServer(r.client.Server())
	var d sqldigest.Digester
	w := LockWait{To: now, Kind: p.kind, Table: p.table, Waiters: len(p.waiters)}
	w.Holder = Holder{Connection: p.holder, User: holder.user, Client: holder.host, Transaction: transactions[p.holder].age, Idle: holder.idle}
	if text != "" {
		w.Holder.Digest = d.Digest([]byte(text), mode)
		w.Holder.Text = string(d.Text())
		if w.Holder.TextCut = cut || d.TextTruncated(); cut {
			w.Holder.Digest = sqldigest.Digest{} // that of another statement
		}
	}
	if r.opts.ClientOf != nil {
		if client, ok := r.opts.ClientOf(p.holder); ok {
			w.Holder.Client = client
		}
	}
	for _, id := range ids[1:] {
		s, ok := sessions[id]
		if !ok {
			continue
		}
		wait := s.running
		if row := transactions[id].wait; row > 0 {
			wait = row
		}
		w.Longest = max(w.Longest, wait)
		if digest := d.Digest([]byte(s.text), mode); s.text != "" && !slices.Contains(w.Waiting, digest) {
			w.Waiting = append(w.Waiting, digest)
		}
	}
	w.From = now.Add(-w.Longest)
	return w, nil
}

// LockWaits returns the waits for locks that overlap a time range, the newest first, and the reason for which locks or
// their holders are unknown, as a sentence; "" if they are known.
func (r *Reader) LockWaits(from, to time.Time) (all []LockWait, problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range slices.Backward(r.locks.waits) {
		if !w.To.Before(from) && !w.From.After(to) {
			w.Waiting = slices.Clone(w.Waiting)
			all = append(all, w)
		}
	}
	return all, r.locks.problem
}

// A Block is a lock that a connection waits for.
type Block struct {
	Holder uint32 // connection, which may wait for another one; 0: unknown
	Kind   LockKind
	Table  string // schema.table; "" of a global lock
}

// setBlocked records what each connection waits for.
func (r *Reader) setBlocked(edges []edge) {
	blocked := make(map[uint32]Block, len(edges))
	for _, e := range edges {
		if _, known := blocked[e.waiter]; !known && e.waiter != e.holder {
			blocked[e.waiter] = Block{e.holder, e.kind, e.table}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.locks.read, r.locks.blocked = time.Now(), blocked
}

// Blocked returns the locks that connections waited for at the last reading, by the number of the connection, and the
// time of that reading. Locks are read while statements run longer than a few seconds; there are none if the last reading is
// older than its usual distance to the next.
func (r *Reader) Blocked() (at time.Time, blocked map[uint32]Block) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.locks.read) > 2*minLockPause+2*CallTime {
		return r.locks.read, nil
	}
	return r.locks.read, maps.Clone(r.locks.blocked)
}
