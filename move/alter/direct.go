package alter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// A Way is how a table is altered.
type Way string

// The ways.
const (
	WayInstant Way = "instant"
	WayInplace Way = "inplace"
	WayCopy    Way = "copy"
	WayNone    Way = "none"
)

// choose returns the way by which the server is asked first, and why.
func (o *Options) choose(g *Judgement) (w Way, why string) {
	v := &g.Whole
	size := fmt.Sprintf("the table has about %d bytes", g.Bytes)
	switch {
	case v.Error != "":
		return WayNone, "the clauses fail on a sample of the table: " + v.Error
	case o.AlwaysCopy:
		return WayCopy, "as option always-copy requires"
	case v.Algorithm == Instant:
		return WayInstant, "the server supports it"
	case v.Algorithm == Unknown:
		return WayInstant, "only the table itself shows what the server supports"
	case v.Algorithm == Inplace && v.Lock == "none" && !v.sized():
		return WayInplace, "no INSTANT (" + v.Why + "); no rows are written"
	case v.Algorithm == Inplace && v.Lock == "none" && g.Bytes <= o.MaxInplace:
		return WayInplace, fmt.Sprintf("no INSTANT (%s); %s, and option max-inplace allows %d", v.Why, size, o.MaxInplace)
	case v.Algorithm == Inplace && v.Lock == "none":
		return o.copyOr(fmt.Sprintf("no INSTANT (%s); INPLACE writes its rows or an index, %s, and option max-inplace allows %d", v.Why, size, o.MaxInplace))
	}
	return o.copyOr("no way without a lock that blocks writes: " + v.Why)
}

// copyOr returns the copy unless the options exclude it.
func (o *Options) copyOr(why string) (Way, string) {
	if o.NeverCopy {
		return WayNone, why + "; option never-copy excludes a copy"
	}
	return WayCopy, why
}

// next returns the way after one that the server has refused.
func (o *Options) next(w Way, g *Judgement, reason string) (Way, string) {
	if w == WayInstant && (g.Whole.Algorithm == Unknown || g.Whole.Algorithm == Instant && g.Bytes <= o.MaxInplace) {
		return WayInplace, "the server refuses INSTANT: " + reason
	}
	return o.copyOr("the server refuses it for this table: " + reason)
}

// A directer executes the statement on the table itself.
type directer struct {
	o      *Options
	c      *mysqlconn.Client
	s      *Statement
	report *Report
}

// errLate is the end of the tries of an INPLACE that was done but for its last lock: each try does all of the work again.
var errLate = errors.New("the server gave up after it had done the work, because of its last lock")

// inplaceTries is how often an INPLACE is tried that has lost its work.
const inplaceTries = 3

// alter executes the statement by an algorithm, each time with a bounded wait for the table's lock. Between two tries, clients that
// have waited behind it are served.
func (d *directer) alter(ctx context.Context, w Way) error {
	algorithm := instantlyOn(d.c)
	if w == WayInplace {
		algorithm = "ALGORITHM=INPLACE, LOCK=NONE"
	}
	if err := setLockWait(ctx, d.c, d.o.MaxLockWait); err != nil {
		return err
	}
	sql, late := alters(d.s.quotedName(), d.s.Clauses, algorithm), 0
	for try := 1; ; try++ {
		d.report.Tries++
		began := time.Now()
		_, err := d.c.Exec(ctx, sql)
		took := time.Since(began)
		d.o.Monitor.tried(began, err)
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), d.kill(ctx))
		}
		if !lockTimeout(err) {
			return err
		}
		d.report.LockWaits = append(d.report.LockWaits, took.Seconds())
		if took > 2*d.o.MaxLockWait+time.Second {
			late++
		}
		switch {
		case late == inplaceTries:
			return fmt.Errorf("%w; it was tried %d times: %w", errLate, late, err)
		case try >= d.o.LockTries:
			return fmt.Errorf("get the lock of %s: transactions that use it were open in each of %d tries; end them, or raise option max-lock-wait or option lock-tries: %w", d.s.fullName(), try, err)
		}
		pause := lockPause(try, d.o.MaxLockWait)
		d.o.Observe(telemetry.Event{Kind: telemetry.EventRetry, Text: fmt.Sprintf("try %d of %d: the lock of %s was not granted within %v; next try in %v",
			try, d.o.LockTries, d.s.fullName(), d.o.MaxLockWait, pause)})
		if !telemetry.Sleep(ctx, pause) {
			return context.Cause(ctx)
		}
	}
}

// lockPause is how long to leave the lock alone after a try: longer than the try, so that clients are served most of the time.
func lockPause(try int, wait time.Duration) time.Duration {
	const most = 30 * time.Second
	return min(most, wait<<min(try, 5))
}
