package copier

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

// HeartbeatOptions say how a copy that follows proves that the log that it reads is alive.
type HeartbeatOptions struct {
	// Off leaves heartbeats out: the lag is then what positions of the log suggest, a log that was started again is
	// noticed only where it is shorter, and a position of another server may be taken for one of the source.
	Off bool

	// OnReplica allows a source that is a replica: heartbeats are written to its primary.
	OnReplica bool
}

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

	// sourceQuestion bounds a question to the source while it is followed.
	sourceQuestion = 10 * time.Second
)

// A heart writes heartbeats to a follower's source and keeps which of them have been applied to the target. All that
// was committed on the source before an applied heartbeat was written is in the target. It is safe for concurrent use.
type heart struct {
	source    binlog.Follower
	copy      string // whose row it is
	run       string
	schemas   []string
	onReplica bool
	now       func() time.Time

	mu      sync.Mutex
	number  uint64
	sent    []sentBeat // not applied, the oldest first
	proven  sentBeat   // the last one that is applied; number 0: none
	at      time.Time  // when that was applied
	failing time.Time  // since when none could be written; zero: the last one was
	err     error      // why
	seen    uint64     // the last one that was read
	idle    time.Time  // when the source last said that there was nothing more to read

	waits    *telemetry.Waits
	patience time.Duration
	endWait  func() // of the wait for a source that takes none; nil: it takes them
}

// A sentBeat is a heartbeat that is written, or about to be.
type sentBeat struct {
	number  uint64
	at      time.Time // before it was written
	written time.Time // zero: not yet
}

// newHeart is for a copy with an id over tables; nil when heartbeats are off.
func newHeart(source binlog.Follower, o *Options, copy string, tables []*tabledef.Table) (*heart, error) {
	if o.Heartbeat.Off || len(tables) == 0 {
		return nil, nil
	}
	h := &heart{source: source, copy: copy, run: strings.ToLower(rand.Text()), onReplica: o.Heartbeat.OnReplica, now: time.Now, waits: o.waits, patience: o.Patience}
	for _, t := range tables {
		h.schemas = append(h.schemas, t.Source.Schema)
	}
	slices.Sort(h.schemas)
	h.schemas = slices.Compact(h.schemas)
	return h, nil
}

func (h *heart) heartbeat(number uint64) binlog.Heartbeat {
	return binlog.Heartbeat{Copy: h.copy, Run: h.run, Number: number, Schemas: h.schemas, OnReplica: h.onReplica}
}

// beat writes a heartbeat and returns its number.
func (h *heart) beat(ctx context.Context) (uint64, error) {
	h.mu.Lock()
	h.number++
	number, begun := h.number, h.now()
	h.sent = append(h.sent, sentBeat{number: number, at: begun})
	h.mu.Unlock()
	err := h.source.Beat(ctx, h.heartbeat(number))
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
		h.endWait = h.waits.Begin("the source to take a heartbeat", err.Error(), h.patience)
	}
	if h.err = err; h.failing.IsZero() {
		h.failing = begun
	}
	return 0, err
}

// read takes what was read of the log.
func (h *heart) read(b *binlog.ChangeBatch) {
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
func (h *heart) applied(number uint64) {
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
func (h *heart) provenUpto() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.proven.number
}

// due reports whether it is time for another heartbeat: hasty, as soon as the last one is applied.
func (h *heart) due(hasty bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.sent) == 0 {
		return hasty || h.now().Sub(h.proven.at) >= beatPause
	}
	return h.now().Sub(h.sent[len(h.sent)-1].at) >= beatPause
}

// fresh reports whether the target has recently had all that the source had, within a short time.
func (h *heart) fresh() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.proven.number > 0 && h.at.Sub(h.proven.at) <= beatFresh && h.now().Sub(h.at) <= 2*beatPause
}

// lag is how far the target is behind, and how long ago that was confirmed; nil: unknown.
func (h *heart) lag() (seconds, confirmed *float64) {
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
func (h *heart) missing() time.Duration {
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
func (h *heart) unwritten() (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		return 0, nil
	}
	return h.now().Sub(h.failing), h.err
}

// end removes what was written.
func (h *heart) end(ctx context.Context) error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	if h.endWait != nil {
		h.endWait()
		h.endWait = nil
	}
	h.mu.Unlock()
	return h.source.EndBeats(context.WithoutCancel(ctx), h.heartbeat(0))
}

// first writes the first heartbeat and reads it in the log. It returns the mark of that for positions that come after
// it, and fails, before any row moves, where heartbeats cannot be written or do not arrive.
func (h *heart) first(ctx context.Context, patience time.Duration, tables []*rowstream.Table) (mark string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it was not there after %v", patience))
	defer cancel()
	from, err := h.source.NowPosition(ctx)
	if err != nil {
		return "", err
	}
	number, err := h.beat(ctx)
	if err != nil {
		return "", err
	}
	changes, err := h.source.Follow(ctx, binlog.FollowOptions{From: from, Tables: tables, Run: h.run, Patience: patience})
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

// prepareHeart has the first heartbeat written and read, unless heartbeats are off.
func (r *run) prepareHeart(ctx context.Context) (err error) {
	if r.heart, err = newHeart(r.from, r.o, r.follow.ID, r.tables); r.heart == nil {
		return err
	}
	if len(r.present()) == 0 { // it stops at the change of their definition
		return nil
	}
	if r.mark, err = r.heart.first(ctx, r.o.Patience, r.present()); err != nil {
		return fmt.Errorf("prove that the changes of the source arrive: %w", err)
	}
	return nil
}

// marked is the text of a position of the snapshot, with the heartbeat before it.
func (r *run) marked(position string) (string, error) {
	p, err := binlog.ParsePosition(position)
	if err != nil || p.IsZero() || r.mark == "" {
		return position, err
	}
	p.Beat = r.mark
	return p.String(), nil
}

// endHeart removes the heartbeats from the source. That they stay is no reason to fail.
func (r *run) endHeart(ctx context.Context) {
	if err := r.heart.end(ctx); err != nil {
		r.o.Observe(telemetry.Event{Kind: telemetry.EventRetry, Text: err.Error()})
	}
}

// catchUp waits until the target has all that is committed on the source by now; p is the end of the log after that.
func (f *follower) catchUp(ctx context.Context, p binlog.Position) error {
	defer f.o.waits.Begin("the target to have all that the source has", "", 0)()
	if f.heart == nil {
		return f.WaitFor(ctx, p)
	}
	for {
		number, err := f.heart.beat(ctx)
		switch {
		case err == nil:
			return f.await(ctx, func() bool { return f.heart.provenUpto() >= number })
		case errors.Is(err, binlog.ErrReadOnly): // nothing is written any more
			return f.WaitFor(ctx, p)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !state.MayPass(err):
			return err
		}
		if long, _ := f.heart.unwritten(); long > f.o.Patience && !state.IsLockWait(err) {
			return err
		}
		if !telemetry.Sleep(ctx, askPause) {
			return context.Cause(ctx)
		}
	}
}
