package cutover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/parallel"
	"github.com/taredb/tare/mysql/binlog"
)

// A handoverTry is one try of a Handover, whose steps are called by Handover.try.
type handoverTry struct {
	h     *Handover
	parts []*HandoverPart // all follow
	began time.Time

	locks        *heldLock       // on the source's tables
	serverLocked bool            // the whole server is locked, not only the tables: it takes no heartbeats
	position     binlog.Position // of the source under the lock
}

// try hands the tables over, or leaves clients at the source and returns why.
func (h *Handover) try(ctx context.Context, parts []*HandoverPart) (err error) {
	h.trying.Lock()
	defer h.trying.Unlock()
	t := &handoverTry{h: h, parts: parts, began: time.Now()}
	held, cancel := context.WithDeadline(ctx, t.began.Add(h.o.MaxPause))
	defer cancel()
	h.notify("writes to the source's tables are stopped, for at most %v", h.o.MaxPause)
	if t.locks, err = h.source.lock(held, h.o.Tables, h.o.MaxPause); err != nil {
		return h.late(held, err, "the source's tables were not locked against writes")
	}
	defer t.locks.close()
	defer func() {
		for _, p := range parts {
			p.thaw()
		}
	}()
	t.serverLocked = !session.IsMariaDB(t.locks.ServerVersion)
	if err := t.catchUp(held); err != nil {
		return err
	}
	whole := context.WithoutCancel(ctx)
	if err := t.recordHanding(held, whole); err != nil {
		return err
	}
	if err := t.stopSource(whole); err != nil {
		return err
	}
	// From here on ctx is ignored: clients cannot write anywhere.
	if err := t.decide(whole); err != nil {
		return err
	}
	t.conclude(whole)
	return nil
}

// catchUp blocks until all targets have everything that the locked source has, and suspends following.
func (t *handoverTry) catchUp(ctx context.Context) (err error) {
	if t.serverLocked {
		t.position, err = lockedPosition(ctx, t.locks.Client, t.parts)
	} else if err = nonePrepared(ctx, t.locks.Client); err == nil {
		t.position, err = t.parts[0].Source.CurrentPosition(ctx)
	}
	if err != nil {
		return err
	}
	err = parallel.ForEach(ctx, len(t.parts), t.parts, func(ctx context.Context, p *HandoverPart) error {
		catchUp := p.f.CatchUp
		if t.serverLocked {
			catchUp = p.f.Reach
		}
		return p.reach(ctx, t.position, catchUp, t.h.o.MaxPause)
	})
	if err != nil {
		return t.h.late(ctx, err, "a target had not reached the source's position")
	}
	return nil
}

// recordHanding records in all targets that a handover is in progress. If that fails, it deletes the records, which
// held does not limit.
func (t *handoverTry) recordHanding(held, whole context.Context) error {
	err := parallel.ForEach(held, len(t.parts), t.parts, func(ctx context.Context, p *HandoverPart) error { return t.record(ctx, p, phaseHanding) })
	if err != nil {
		return errors.Join(t.h.late(held, err, "a target had not recorded the handover"), t.forget(whole))
	}
	return nil
}

// stopSource makes the source read-only, or leaves it writable and returns why, unless the error is an uncertainError.
func (t *handoverTry) stopSource(ctx context.Context) (err error) {
	if t.serverLocked {
		err = t.h.source.stopLocked(ctx, t.locks.Client)
	} else if err = t.locked(ctx); err == nil {
		err = t.h.source.stop(ctx, t.h.o.MaxPause-time.Since(t.began))
	}
	if err == nil || isUncertain(err) {
		return err
	}
	return errors.Join(fmt.Errorf("make the source read-only: %w", err), t.forget(ctx))
}

// decide records in the first target that the tables are handed over, or makes the source writable again and returns
// why, unless the error is an uncertainError.
func (t *handoverTry) decide(ctx context.Context) error {
	err := t.provePosition(ctx)
	if err == nil {
		err = t.recordDecision(ctx)
	}
	if err == nil || isUncertain(err) {
		return err
	}
	if released := t.h.source.release(ctx); released != nil {
		return &uncertainError{fmt.Errorf("%w; and the source could not be made writable again: %w", err, released)}
	}
	return errors.Join(err, t.forget(ctx))
}

// provePosition returns an error if the read-only source may have been written to after the position.
func (t *handoverTry) provePosition(ctx context.Context) error {
	if t.serverLocked {
		return t.h.source.settle(ctx, t.locks, t.position)
	}
	return t.locked(ctx)
}

// locked returns an error if the connection with the locks was lost.
func (t *handoverTry) locked(ctx context.Context) error {
	if _, err := t.locks.Exec(ctx, "DO 0"); err != nil {
		return fmt.Errorf("the connection that locked the source's tables was lost: %w", err)
	}
	return nil
}

// recordDecision records in the first target that the tables are handed over. If its response is lost, it reads the record.
func (t *handoverTry) recordDecision(ctx context.Context) error {
	first := t.parts[0]
	err := t.record(ctx, first, phaseHanded)
	if err == nil {
		return nil
	}
	var noted recorded
	readErr := first.notes.Retry(ctx, func() (err error) {
		noted, _, err = first.record.load(ctx, first.notes.Conn)
		return err
	})
	switch {
	case readErr != nil:
		return &uncertainError{errors.Join(err, readErr)}
	case noted.phase == phaseHanded:
		return nil
	}
	return err
}

// conclude records the handover in the other targets, ends following and completes the report.
func (t *handoverTry) conclude(ctx context.Context) {
	for _, p := range t.parts[1:] {
		if err := t.record(ctx, p, phaseHanded); err != nil {
			t.h.notify("not recorded by all targets, which the next run repeats: %v", err)
		}
	}
	for _, p := range t.parts {
		p.f.Seal()
		p.frozen = false
	}
	pause := time.Since(t.began)
	t.h.mu.Lock()
	t.h.made = true
	t.h.report.Phase, t.h.report.SourcePosition, t.h.report.PauseSeconds = string(phaseHanded), t.position.String(), pause.Seconds()
	t.h.mu.Unlock()
	t.h.notify("the source is read-only, and each of the %d targets has everything before %s; it took %v", len(t.parts), t.position, pause.Round(time.Millisecond))
}

// record records the progress of the try in a target.
func (t *handoverTry) record(ctx context.Context, p *HandoverPart, progress phase) error {
	err := p.notes.Retry(ctx, func() error { return p.record.recordHandover(ctx, p.notes.Conn, t.position, progress) })
	if err != nil {
		return fmt.Errorf("%s: %w", p.to, err)
	}
	return nil
}

// forget deletes the records of a try that has failed.
func (t *handoverTry) forget(ctx context.Context) error {
	return parallel.ForEach(ctx, len(t.parts), t.parts, func(ctx context.Context, p *HandoverPart) error {
		return p.notes.Retry(ctx, func() error { return p.record.forget(ctx, p.notes.Conn) })
	})
}

// late returns err, with the event that it precluded if the time of ctx is over.
func (h *Handover) late(ctx context.Context, err error, what string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s when the %v of option cutover-hold were over: %w", what, h.o.MaxPause, err)
	}
	return err
}
