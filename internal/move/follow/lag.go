package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// watch periodically measures the lag. It reports when the target has caught up or is outrun, and stops the
// follower when nothing is left to wait for.
func (f *Follower) watch(ctx context.Context) error {
	w := lagWatch{f: f}
	for pause := firstInterval; ; pause = min(2*pause, catchUpInterval) {
		err := w.check(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if w.caughtUp {
			pause = caughtUpInterval
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// A lagWatch is the state between two checks of the lag.
type lagWatch struct {
	f        *Follower
	trend    lagTrend
	reported time.Time // when the lag was last reported
	caughtUp bool

	counted binlog.Position // applied position at the previous check
	done    int64           // bytes of the log that this run has applied, as far as known

	finishBeat uint64 // the heartbeat written after Finish was called; 0: none

	// Without heartbeats.
	goal      binlog.Position // end of the log at the previous check
	finish    bool            // Finish had been called by then
	confirmed time.Time       // when the target last had everything before the end of the log; zero: never
}

// isTemporary reports whether an error of the source may be temporary. The goroutine that reads the changes enforces
// the patience.
func (f *Follower) isTemporary(err error) bool {
	var refused *mysqlconn.ServerError
	return !errors.As(err, &refused) || refused.SafeToRetry() || state.IsShutdown(refused.Number)
}

// A reached is the result of a check of the target's progress.
type reached struct {
	there    bool // the target has everything that the source had a moment ago
	finished bool // the target has everything that the source had when Finish was called
}

// check measures the lag once.
func (w *lagWatch) check(ctx context.Context) error {
	f := w.f
	f.mu.Lock()
	finish := f.finish // read before the log's end: everything written before Finish is before that end
	f.mu.Unlock()
	end, behind, err := w.measure(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	applied, commit, changes := f.applied, f.commit, f.changes
	f.mu.Unlock()
	var r reached
	proves := f.o.Heartbeat != nil
	if proves {
		if r, proves, err = w.prove(ctx, finish); err != nil {
			return err
		}
	}
	if !proves {
		r = w.compare(applied, end, finish)
	}
	first := false
	f.change(func() {
		f.single = f.single || r.there
		first = f.single && !f.parts && !f.caughtUp
		w.caughtUp = f.caughtUp || first
	})
	lag := w.lag(applied, behind, changes, commit)
	w.report(&lag, first) // before WaitCaughtUp returns
	f.change(func() { f.caughtUp, f.lag, f.reached = w.caughtUp, lag, w.confirmed })
	if w.caughtUp && (r.finished || r.there && f.o.UntilCaughtUp && f.MayEnd()) {
		f.End()
	}
	return nil
}

// measure returns the end of the log and the number of its bytes that are not applied, nil if unknown.
func (w *lagWatch) measure(ctx context.Context) (end binlog.Position, behind *int64, err error) {
	f := w.f
	ctx, cancel := context.WithTimeoutCause(ctx, sourceTimeout, fmt.Errorf("no response within %v", sourceTimeout))
	defer cancel()
	if end, err = f.o.Source.CurrentPosition(ctx); err != nil {
		if f.isTemporary(err) {
			return binlog.Position{}, nil, nil
		}
		return end, nil, err
	}
	applied := f.Applied()
	n, err := f.o.Source.LogBytes(ctx, applied, end)
	if err != nil { // a file of another server, or a purged one
		return end, nil, nil //nolint:nilerr // the number is unknown
	}
	if w.counted.IsZero() {
		w.counted = f.o.From
	}
	if done, err := f.o.Source.LogBytes(ctx, w.counted, applied); err == nil {
		w.done += done
	}
	w.counted = applied
	n = max(0, n)
	return end, &n, nil
}

// prove writes the heartbeats that are due, and returns what the applied ones prove. ok is false if the
// source is read-only: then nothing is written to it, and its position is an equal proof.
func (w *lagWatch) prove(ctx context.Context, finish bool) (r reached, ok bool, err error) {
	f, h := w.f, w.f.o.Heartbeat
	if needed := finish && w.finishBeat == 0; needed || h.due(!w.caughtUp) {
		number, err := h.beat(ctx)
		switch {
		case errors.Is(err, binlog.ErrReadOnly):
			return r, false, nil
		case err != nil && !state.IsTransient(err):
			return r, false, err
		case err != nil:
			if long, _ := h.unwritten(); long > f.o.Patience && !state.IsLockWait(err) && ctx.Err() == nil {
				return r, false, fmt.Errorf("%w; tried for %v", err, f.o.Patience)
			}
		case needed:
			w.finishBeat = number
		}
	}
	if missing := h.missing(); missing > f.o.Patience && !h.o.OnReplica {
		return r, false, fmt.Errorf("the binary log of the source does not show a heartbeat that was written %v ago, and has nothing more to read: it was started again, or is not the log of all changes; "+
			"copy the tables again (option restart)", missing.Round(time.Second))
	}
	r.there = h.fresh()
	r.finished = w.finishBeat > 0 && h.provenUpto() >= w.finishBeat
	return r, true, nil
}

// compare returns the target's progress by positions of the log, which must be those of one server.
func (w *lagWatch) compare(applied, end binlog.Position, finish bool) (r reached) {
	if end.IsZero() {
		return r
	}
	at, past := applied.Reaches(end), !w.goal.IsZero() && applied.Reaches(w.goal)
	r = reached{there: at || past, finished: finish && (at || past && w.finish)}
	w.goal, w.finish = end, finish
	if at {
		w.confirmed = w.f.now()
	}
	return r
}

// lag returns the current lag.
func (w *lagWatch) lag(applied binlog.Position, behind *int64, changes int64, commit time.Time) telemetry.Lag {
	f, now := w.f, w.f.now()
	lag := telemetry.Lag{Bytes: behind, Position: applied.String(), Changes: changes, CaughtUp: w.caughtUp}
	if behind != nil {
		held := time.Duration(0)
		if f.o.Pace != nil {
			held, _ = f.o.Pace.Waited()
		}
		w.trend.add(lagSample{at: now, behind: *behind, applied: w.done, changes: changes, throttled: held})
	}
	if len(w.trend.samples) > 0 {
		lag.PerSecond, lag.ETASeconds, lag.Outrun = w.trend.perSecond(), w.trend.eta().Seconds(), w.trend.outrun()
	}
	if !commit.IsZero() {
		age := max(0, now.Sub(commit).Seconds())
		lag.CommitAge = &age
	}
	f.prove(&lag, w.confirmed)
	return lag
}

// prove sets the current lag: by heartbeats, or else by the time when the target last had everything before
// the log's end.
func (f *Follower) prove(l *telemetry.Lag, reached time.Time) {
	l.Seconds, l.Confirmed = nil, nil
	if f.o.Heartbeat != nil {
		l.Seconds, l.Confirmed = f.o.Heartbeat.lag()
		return
	}
	if reached.IsZero() {
		return
	}
	age := f.now().Sub(reached).Seconds()
	if l.Confirmed = &age; age <= lagUnknown.Seconds() {
		l.Seconds = &age
	}
}

// report reports the lag and its changes.
func (w *lagWatch) report(lag *telemetry.Lag, first bool) {
	f, now := w.f, w.f.now()
	if first {
		f.o.Observe(telemetry.Event{Kind: telemetry.EventCaughtUp, Text: fmt.Sprintf("the target has caught up after %d changes, at %s; from here on transactions are kept whole", lag.Changes, f.Applied().Place())})
	}
	if first || now.Sub(w.reported) >= reportInterval {
		w.reported = now
		f.o.Observe(telemetry.Event{Kind: telemetry.EventLag, Lag: lag})
	}
	if len(w.trend.samples) == 0 {
		return
	}
	reason := ""
	if f.o.Pace != nil {
		_, reason = f.o.Pace.Waited()
	}
	if text := w.trend.report(lag.Outrun, reason); text != "" {
		f.o.Observe(telemetry.Event{Kind: telemetry.EventOutrun, Text: text})
	}
}

// Status returns the follower's status.
func (f *Follower) Status() *telemetry.FollowStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	lag := f.lag
	f.prove(&lag, f.reached)
	s := &telemetry.FollowStatus{
		Position: f.applied.String(), LagSeconds: lag.Seconds, ConfirmedSeconds: lag.Confirmed, LagBytes: lag.Bytes, Lag: lag.Text(),
		CaughtUp: f.caughtUp, Outrun: lag.Outrun,
	}
	if f.o.Pace != nil {
		held, reason := f.o.Pace.Waited()
		s.HeldSeconds, s.Held = held.Seconds(), reason
	}
	return s
}

// A reconnecter is a reader of changes that can abandon its connection.
type reconnecter interface{ Reconnect() }

// reconnectMissing requests the log again if a heartbeat is missing from it.
func (f *Follower) reconnectMissing(changes binlog.Changes) {
	again, ok := changes.(reconnecter)
	if f.o.Heartbeat == nil || !ok || f.now().Sub(f.reconnected) < 2*beatMissing || f.o.Heartbeat.missing() == 0 {
		return
	}
	f.reconnected = f.now()
	f.o.Observe(telemetry.Event{Kind: telemetry.EventRetry, Text: "a heartbeat is missing in the source's log: it is asked for again"})
	again.Reconnect()
}
