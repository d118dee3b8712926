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

	"github.com/taredb/tare/binlog"
	"github.com/taredb/tare/copier/state"
	"github.com/taredb/tare/copier/tabledef"
	"github.com/taredb/tare/copier/telemetry"
	"github.com/taredb/tare/rowstream"
)

const (
	// beatPause is how often a heartbeat is written.
	beatPause = time.Second

	// beatFresh is how old a heartbeat may be, when it is applied, for the target to count as caught up.
	beatFresh = time.Second

	// lagUnknown is after how long without a proof the lag is not known.
	lagUnknown = 10 * time.Second

	// beatMissing is for how long a heartbeat may be missing in a log that has nothing more to read, before the log
	// is asked for again.
	beatMissing = 5 * time.Second

	retryPause = 50 * time.Millisecond // after a heartbeat that could not be written

	// sourceQuestion bounds a question to the source while it is followed.
	sourceQuestion = 10 * time.Second
)

// A Heart writes heartbeats to a follower's source and keeps which of them have been applied to the target. All that
// was committed on the source before an applied heartbeat was written is in the target. It is safe for concurrent use.
type Heart struct {
	o       HeartOptions
	run     string
	schemas []string // of the tables
	now     func() time.Time

	mu      sync.Mutex
	number  uint64
	sent    []sentBeat // not applied, the oldest first
	proven  sentBeat   // the last one that is applied; number 0: none
	at      time.Time  // when that was applied
	failing time.Time  // since when none could be written; zero: the last one was
	err     error      // why
	seen    uint64     // the last one that was read
	idle    time.Time  // when the source last said that there was nothing more to read

	endWait func() // of the wait for a source that takes none; nil: it takes them
}

// A sentBeat is a heartbeat that is written, or about to be.
type sentBeat struct {
	number  uint64
	at      time.Time // before it was written
	written time.Time // zero: not yet
}

// HeartOptions say where heartbeats are written.
type HeartOptions struct {
	Source    binlog.Follower
	Copy      string // the id of the copy, whose row it is
	Tables    []*tabledef.Table
	OnReplica bool // the source may be a replica: heartbeats are written to its primary

	Patience time.Duration // with a source that takes none
	Waits    *telemetry.Waits
	Observe  func(telemetry.Event)
}

// NewHeart returns a heart that has written nothing.
func NewHeart(o HeartOptions) *Heart {
	h := &Heart{o: o, run: strings.ToLower(rand.Text()), now: time.Now}
	for _, t := range o.Tables {
		h.schemas = append(h.schemas, t.Source.Schema)
	}
	slices.Sort(h.schemas)
	h.schemas = slices.Compact(h.schemas)
	return h
}

func (h *Heart) heartbeat(number uint64) binlog.Heartbeat {
	return binlog.Heartbeat{Copy: h.o.Copy, Run: h.run, Number: number, Schemas: h.schemas, OnReplica: h.o.OnReplica}
}

// beat writes a heartbeat and returns its number.
func (h *Heart) beat(ctx context.Context) (uint64, error) {
	h.mu.Lock()
	h.number++
	number, begun := h.number, h.now()
	h.sent = append(h.sent, sentBeat{number: number, at: begun})
	h.mu.Unlock()
	err := h.o.Source.Beat(ctx, h.heartbeat(number))
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

// read takes what was read of the log.
func (h *Heart) read(b *binlog.ChangeBatch) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = max(h.seen, b.Beat)
	if b.Idle {
		h.idle = h.now()
	}
}

// applied takes the last heartbeat before what is in the target.
func (h *Heart) applied(number uint64) {
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

// provenUpto is the number of the last heartbeat that is applied.
func (h *Heart) provenUpto() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.proven.number
}

// due reports whether it is time for another heartbeat: hasty, as soon as the last one is applied.
func (h *Heart) due(hasty bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.sent) == 0 {
		return hasty || h.now().Sub(h.proven.at) >= beatPause
	}
	return h.now().Sub(h.sent[len(h.sent)-1].at) >= beatPause
}

// fresh reports whether the target has recently had all that the source had, within a short time.
func (h *Heart) fresh() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.proven.number > 0 && h.at.Sub(h.proven.at) <= beatFresh && h.now().Sub(h.at) <= 2*beatPause
}

// lag is how far the target is behind, and how long ago that was confirmed; nil: unknown.
func (h *Heart) lag() (seconds, confirmed *float64) {
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

// missing reports how long the oldest heartbeat has been written and is not in the log, though the source says that
// there is nothing more to read; 0 when that is not so.
func (h *Heart) missing() time.Duration {
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

// unwritten is why no heartbeat could be written, and for how long; nil when the last one was.
func (h *Heart) unwritten() (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		return 0, nil
	}
	return h.now().Sub(h.failing), h.err
}

// End removes the heartbeats from the source. A failure is observed: it is no reason to fail.
func (h *Heart) End(ctx context.Context) {
	if h == nil {
		return
	}
	h.mu.Lock()
	if h.endWait != nil {
		h.endWait()
		h.endWait = nil
	}
	h.mu.Unlock()
	if err := h.o.Source.EndBeats(context.WithoutCancel(ctx), h.heartbeat(0)); err != nil {
		h.o.Observe(telemetry.Event{Kind: telemetry.EventRetry, Text: "heartbeats remain in the source: " + err.Error()})
	}
}

// First writes the first heartbeat and reads it in the log. It returns the mark of that for positions that come after
// it, and fails, before any row moves, where heartbeats cannot be written or do not arrive.
func (h *Heart) First(ctx context.Context, tables []*rowstream.Table) (mark string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.o.Patience, fmt.Errorf("it was not there after %v", h.o.Patience))
	defer cancel()
	from, err := h.o.Source.NowPosition(ctx)
	if err != nil {
		return "", err
	}
	number, err := h.beat(ctx)
	if err != nil {
		return "", err
	}
	changes, err := h.o.Source.Follow(ctx, binlog.FollowOptions{From: from, Tables: tables, Run: h.run, Patience: h.o.Patience})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, changes.Close()) }()
	var b binlog.ChangeBatch
	for b.Beat < number || b.Upto.Beat == "" { // the batch may end within the group of the heartbeat
		if err := changes.Next(ctx, &b); err != nil {
			return "", fmt.Errorf("wait for the first heartbeat in the binary log: %w", err)
		}
	}
	h.mu.Lock()
	h.sent = nil // it proves nothing of the target
	h.mu.Unlock()
	return b.Upto.Beat, nil
}

// CatchUp waits until the target has all that is committed on the source by now; p is the end of the log after that.
func (f *Follower) CatchUp(ctx context.Context, p binlog.Position) error {
	defer f.o.Waits.Begin("the target to have all that the source has", "", 0)()
	if f.o.Heart == nil {
		return f.waitFor(ctx, p)
	}
	for {
		number, err := f.o.Heart.beat(ctx)
		switch {
		case err == nil:
			return f.await(ctx, func() bool { return f.o.Heart.provenUpto() >= number })
		case errors.Is(err, binlog.ErrReadOnly): // nothing is written any more
			return f.waitFor(ctx, p)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !state.MayPass(err):
			return err
		}
		if long, _ := f.o.Heart.unwritten(); long > f.o.Patience && !state.IsLockWait(err) {
			return err
		}
		if !telemetry.Sleep(ctx, retryPause) {
			return context.Cause(ctx)
		}
	}
}
