package follow

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

const (
	// beatPause is the interval between heartbeats.
	beatPause = time.Second

	// beatFresh is the maximum age of a heartbeat, when it is applied, for the target to count as caught up.
	beatFresh = time.Second

	// lagUnknown is the time without a proof after which the lag is unknown.
	lagUnknown = 10 * time.Second

	// beatMissing is how long a heartbeat may be missing from a log with nothing more to read before the log
	// is requested again.
	beatMissing = 5 * time.Second

	retryPause = 50 * time.Millisecond // after a heartbeat that could not be written

	// sourceTimeout is the timeout of a query to the source while it is followed.
	sourceTimeout = 10 * time.Second
)

// A Heartbeat writes heartbeats to a follower's source and records which of them have been applied to the target.
// Everything committed on the source before an applied heartbeat was written is in the target. It is safe for
// concurrent use.
type Heartbeat struct {
	o       HeartbeatOptions
	run     string
	schemas []string // of the tables
	now     func() time.Time

	mu      sync.Mutex
	number  uint64
	sent    []sentBeat // not applied, the oldest first
	proven  sentBeat   // the last applied heartbeat; number 0: none
	at      time.Time  // when it was applied
	failing time.Time  // since when heartbeats could not be written; zero: the last one was written
	err     error      // the error of the last write
	seen    uint64     // number of the last heartbeat read
	idle    time.Time  // when the source last reported that there was nothing more to read

	endWait func() // ends the reported wait for a source that accepts no heartbeats; nil: there is no such wait
}

// A sentBeat is a heartbeat that was written, or is about to be.
type sentBeat struct {
	number  uint64
	at      time.Time // before it was written
	written time.Time // zero: not written yet
}

// HeartbeatOptions specify where heartbeats are written.
type HeartbeatOptions struct {
	Source    binlog.Follower
	Copy      string // the id of the copy, which is the key of its row
	Tables    []*tabledef.Table
	OnReplica bool // the source may be a replica: heartbeats are written to its primary

	Patience time.Duration // how long to tolerate a source that accepts no heartbeats
	Waits    *telemetry.Waits
	Observe  func(telemetry.Event)
}

// NewHeartbeat returns a heart that has not written any heartbeat.
func NewHeartbeat(o HeartbeatOptions) *Heartbeat {
	h := &Heartbeat{o: o, run: strings.ToLower(rand.Text()), now: time.Now}
	for _, t := range o.Tables {
		h.schemas = append(h.schemas, t.Source.Schema)
	}
	slices.Sort(h.schemas)
	h.schemas = slices.Compact(h.schemas)
	return h
}

// Use has heartbeats written to a source, which is another connection to the same server. It must not be called concurrently with other methods.
func (h *Heartbeat) Use(source binlog.Follower) {
	if h != nil {
		h.o.Source = source
	}
}

func (h *Heartbeat) heartbeat(number uint64) binlog.Heartbeat {
	return binlog.Heartbeat{Copy: h.o.Copy, Run: h.run, Number: number, Schemas: h.schemas, OnReplica: h.o.OnReplica}
}

// beat writes a heartbeat and returns its number.
func (h *Heartbeat) beat(ctx context.Context) (uint64, error) {
	h.mu.Lock()
	h.number++
	number, begun := h.number, h.now()
	h.sent = append(h.sent, sentBeat{number: number, at: begun})
	h.mu.Unlock()
	err := h.o.Source.WriteHeartbeat(ctx, h.heartbeat(number))
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.sent, func(s sentBeat) bool { return s.number == number })
	if err == nil {
		h.failing, h.err = time.Time{}, nil
		if h.endWait != nil {
			h.endWait()
			h.endWait = nil
		}
		if i >= 0 { // otherwise it is applied already
			h.sent[i].written = h.now()
		}
		return number, nil
	}
	if i >= 0 {
		h.sent = slices.Delete(h.sent, i, i+1)
	}
	if h.endWait == nil {
		h.endWait = h.o.Waits.Begin("the source to take a heartbeat", err.Error(), h.o.Patience)
	}
	if h.err = err; h.failing.IsZero() {
		h.failing = begun
	}
	return 0, err
}

// read records the heartbeats of a batch read from the log.
func (h *Heartbeat) read(b *binlog.ChangeBatch) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = max(h.seen, b.Heartbeat)
	if b.Idle {
		h.idle = h.now()
	}
}

// applied records the last heartbeat before the changes in the target.
func (h *Heartbeat) applied(number uint64) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.sent) > 0 && h.sent[0].number <= number {
		h.proven, h.at = h.sent[0], h.now()
		h.sent = h.sent[1:]
	}
}

// provenUpto returns the number of the last applied heartbeat.
func (h *Heartbeat) provenUpto() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.proven.number
}

// due reports whether another heartbeat is due. With hasty, it is due as soon as the last one is applied.
func (h *Heartbeat) due(hasty bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.sent) == 0 {
		return hasty || h.now().Sub(h.proven.at) >= beatPause
	}
	return h.now().Sub(h.sent[len(h.sent)-1].at) >= beatPause
}

// fresh reports whether the target recently had everything that the source had, within a short time.
func (h *Heartbeat) fresh() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.proven.number > 0 && h.at.Sub(h.proven.at) <= beatFresh && h.now().Sub(h.at) <= 2*beatPause
}

// lag returns the lag of the target in seconds and the age of its last proof; nil: unknown.
func (h *Heartbeat) lag() (seconds, confirmed *float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.proven.number == 0 {
		return nil, nil
	}
	now := h.now()
	age := now.Sub(h.at).Seconds()
	if age > lagUnknown.Seconds() {
		return nil, &age
	}
	behind := h.at.Sub(h.proven.at)
	if len(h.sent) > 0 {
		behind = max(behind, now.Sub(h.sent[0].at))
	}
	s := behind.Seconds()
	return &s, &age
}

// missing returns how long the oldest heartbeat has been written and missing from the log although the source
// reports that there is nothing more to read; 0 if none is missing.
func (h *Heartbeat) missing() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.sent {
		if s.number > h.seen {
			if s.written.IsZero() || h.idle.Sub(s.written) < beatMissing {
				return 0
			}
			return h.now().Sub(s.written)
		}
	}
	return 0
}

// unwritten returns why no heartbeat could be written and for how long; nil if the last one was written.
func (h *Heartbeat) unwritten() (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		return 0, nil
	}
	return h.now().Sub(h.failing), h.err
}

// End deletes the heartbeats from the source. It reports an error only as an event.
func (h *Heartbeat) End(ctx context.Context) {
	if h == nil {
		return
	}
	h.mu.Lock()
	if h.endWait != nil {
		h.endWait()
		h.endWait = nil
	}
	h.mu.Unlock()
	if err := h.o.Source.DeleteHeartbeat(context.WithoutCancel(ctx), h.heartbeat(0)); err != nil {
		h.o.Observe(telemetry.Event{Kind: telemetry.EventRetry, Text: "heartbeats remain in the source: " + err.Error()})
	}
}

// Check returns the error with which First fails if the source does not accept heartbeats. It writes nothing.
func (h *Heartbeat) Check(ctx context.Context) error {
	return h.o.Source.CheckHeartbeat(ctx, h.heartbeat(1))
}

// First writes the first heartbeat and reads it from the log. It returns the heartbeat's mark for later
// positions. It fails, before any row is copied, if heartbeats cannot be written or do not arrive.
func (h *Heartbeat) First(ctx context.Context, tables []*rowstream.Table) (mark string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.o.Patience, fmt.Errorf("it was not there after %v", h.o.Patience))
	defer cancel()
	from, err := h.o.Source.CurrentPosition(ctx)
	if err != nil {
		return "", err
	}
	number, err := h.firstBeat(ctx)
	if err != nil {
		return "", err
	}
	changes, err := h.o.Source.Follow(ctx, binlog.FollowOptions{From: from, Tables: tables, Run: h.run, Patience: h.o.Patience})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, changes.Close()) }()
	var b binlog.ChangeBatch
	for b.Heartbeat < number || b.Upto.Heartbeat == "" { // the batch may end within the group of the heartbeat
		if err := changes.Next(ctx, &b); err != nil {
			return "", fmt.Errorf("wait for the first heartbeat in the binary log: %w", err)
		}
	}
	h.mu.Lock()
	h.sent = nil // it does not prove anything about the target
	h.mu.Unlock()
	return b.Upto.Heartbeat, nil
}

// firstBeat writes the first heartbeat, and repeats it while the source is unreachable or takes too long, until the
// context ends.
func (h *Heartbeat) firstBeat(ctx context.Context) (uint64, error) {
	for {
		number, err := h.beat(ctx)
		if err == nil || errors.Is(err, binlog.ErrReadOnly) || !state.IsTransient(err) {
			return number, err
		}
		if !telemetry.Sleep(ctx, retryPause) {
			return 0, err
		}
	}
}

// Reach blocks until the target has everything before p, which is a position of the log that the follower reads.
func (f *Follower) Reach(ctx context.Context, p binlog.Position) error {
	defer f.o.Waits.Begin("the target to have all that the source has", "", 0)()
	return f.waitFor(ctx, p)
}

// CatchUp blocks until the target has everything committed on the source before the call; p is a later end of
// the log.
func (f *Follower) CatchUp(ctx context.Context, p binlog.Position) error {
	defer f.o.Waits.Begin("the target to have all that the source has", "", 0)()
	if f.o.Heartbeat == nil {
		return f.waitFor(ctx, p)
	}
	for {
		number, err := f.o.Heartbeat.beat(ctx)
		switch {
		case err == nil:
			return f.await(ctx, func() bool { return f.o.Heartbeat.provenUpto() >= number })
		case errors.Is(err, binlog.ErrReadOnly): // nothing is written any more
			return f.waitFor(ctx, p)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !state.IsTransient(err):
			return err
		}
		if long, _ := f.o.Heartbeat.unwritten(); long > f.o.Patience && !state.IsLockWait(err) {
			return err
		}
		if !telemetry.Sleep(ctx, retryPause) {
			return context.Cause(ctx)
		}
	}
}
