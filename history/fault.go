package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/prometheus/tsdb"
	"golang.org/x/sys/unix"

	"github.com/taredb/tare/internal/localstate"
)

// Files that guard against a full disk.
const (
	reserveName = "reserve"
	probeName   = "probe"
)

// spacePerSeries is the free space kept per series of the head: its finished chunks are written at
// once, and the TSDB panics when a chunk cannot be written.
const spacePerSeries = 1 << 10

var faultPiece = localstate.Piece{Name: "history samples", Lost: "samples within the range; counters continue, and the next samples include its calls"}

// errStopped is the error of rounds that write nothing because of a fault.
var errStopped = errors.New("history is stopped after a failed write")

// A fault is why nothing is appended. The TSDB appends behind a record that was written in part, and its
// repair at the next start removes all that follows: nothing may be appended before it is reopened.
type fault struct {
	cause  error
	broken bool // the database has to be reopened
}

// stop begins a fault. The caller holds flushing.
func (a *Archive) stop(cause error, broken bool) {
	if a.fault != nil {
		a.fault.broken = a.fault.broken || broken
		return
	}
	a.fault = &fault{cause: cause, broken: broken}
	a.stopped.Store(true)
	// The space is for the record of the fault, and for closing the database.
	if err := os.Remove(filepath.Join(a.options.Dir, reserveName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		a.log.Error("history reserve not freed", "err", err)
	}
	from := time.UnixMilli(a.writer.good)
	a.log.Error("history stopped; counters continue", "since", from.UTC(), "err", cause)
	if err := a.faults.begin(from, cause); err != nil {
		a.log.Error("history fault not recorded", "err", err)
	}
}

// ready reports whether samples can be appended: it begins a fault when the disk is almost full, and
// repairs one when the disk takes writes again. The caller holds flushing.
func (a *Archive) ready() error {
	if cause := a.damage.Swap(nil); cause != nil {
		a.stop(*cause, true)
	}
	need := a.spaceNeeded()
	if a.fault != nil {
		need += need/4 + a.options.ReserveBytes
	}
	if err := checkSpace(a.options.Dir, need); err != nil {
		a.stop(err, false)
		return fmt.Errorf("%w: %w", errStopped, err)
	}
	if a.fault == nil {
		return nil
	}
	if err := probe(a.options.Dir); err != nil {
		return fmt.Errorf("%w: %w", errStopped, err)
	}
	if a.fault.broken {
		if err := a.reopen(); err != nil {
			return fmt.Errorf("%w: reopen: %w", errStopped, err)
		}
		a.fault.broken = false
	}
	return nil
}

// reopen closes the database and opens it again, which repairs its log, and starts the writer over.
func (a *Archive) reopen() error {
	a.maintaining.Lock()
	defer a.maintaining.Unlock()
	if err := a.db.replace(func() (*tsdb.DB, error) { return a.local.reopen(a.expired) }); err != nil {
		return err
	}
	a.damage.Store(nil) // of the database before
	a.options.Source.Repeat()
	a.ledger.recheck()
	send(a.recheck)
	return a.writer.restart(a.db.current())
}

// resume ends a fault after a round that was written whole. The caller holds flushing.
func (a *Archive) resume() {
	stopped := a.fault != nil
	a.fault = nil
	a.stopped.Store(false)
	lost, ok, err := a.faults.end(time.UnixMilli(a.writer.last))
	if err != nil {
		a.log.Error("end of history fault not recorded", "err", err)
	}
	if ok {
		a.options.State.Report(localstate.Loss{
			Piece: faultPiece, Path: a.options.Dir,
			Cause: fmt.Sprintf("%s to %s: %s", lost.From.Format(time.RFC3339), lost.To.Format(time.RFC3339), lost.Cause),
		})
	}
	if stopped {
		a.local.record(a.db.current().BlockMetas())
		if err := allocateReserve(a.options.Dir, a.options.ReserveBytes); err != nil {
			a.log.Warn("history reserve not allocated", "err", err)
		}
	}
}

// spaceNeeded is the free space below which nothing is written.
func (a *Archive) spaceNeeded() int64 {
	return a.options.ReserveBytes + int64(a.db.current().Head().NumSeries())*spacePerSeries
}

// checkSpace returns an error when fewer bytes are free.
func checkSpace(dir string, need int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("free space of %s: %w", dir, err)
	}
	if free := int64(st.Bavail) * st.Bsize; free < need {
		return fmt.Errorf("%s has %d bytes free, history needs %d: %w", dir, free, need, unix.ENOSPC)
	}
	return nil
}

// allocateReserve allocates the reserve file.
func allocateReserve(dir string, bytes int64) error {
	f, err := os.OpenFile(filepath.Join(dir, reserveName), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = unix.Fallocate(int(f.Fd()), 0, 0, bytes)
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = nil // such a file system has no reserve
	}
	if err == nil {
		err = f.Truncate(bytes) // of an earlier, larger one
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// probe writes and syncs a file.
func probe(dir string) error {
	const probeBytes = 256 << 10
	name := filepath.Join(dir, probeName)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, probeBytes))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(name))
}

// maintainEvery is how often chunks and blocks are written, as by the TSDB itself.
const maintainEvery = time.Minute

// maintain writes finished chunks and blocks until the context ends.
func (a *Archive) maintain(ctx context.Context) {
	for wait(ctx, a.compactable, maintainEvery) == nil {
		if err := a.maintainOnce(ctx); err != nil && ctx.Err() == nil {
			a.log.Error("history compaction failed; it is retried", "err", err)
		}
	}
}

// wait blocks for a time, or until there is a signal, or the context ends.
func wait(ctx context.Context, signal <-chan struct{}, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
	case <-signal:
	}
	return ctx.Err()
}

// send signals without blocking; the channel has a buffer of one.
func send(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// signalCompaction starts a compaction once the head spans one and a half blocks, as the TSDB does.
func (a *Archive) signalCompaction() {
	if head := a.db.current().Head(); head.MaxTime()-head.MinTime() > BlockRange.Milliseconds()*3/2 {
		send(a.compactable)
	}
}

// maintainOnce writes finished chunks of the head, compacts it, and deletes expired blocks. A panic of
// the TSDB, which is how it reports a chunk that it could not write, makes the next round reopen it.
func (a *Archive) maintainOnce(ctx context.Context) (err error) {
	a.maintaining.Lock()
	defer a.maintaining.Unlock()
	if a.stopped.Load() {
		return nil
	}
	if err := checkSpace(a.options.Dir, a.spaceNeeded()); err != nil {
		return nil //nolint:nilerr // the next round stops history and reports it
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("write chunks: %v", r)
			a.damage.Store(&err)
		}
	}()
	db := a.db.current()
	db.ForceHeadMMap()
	before := len(db.Blocks())
	if err := db.Compact(ctx); err != nil {
		return err
	}
	if len(db.Blocks()) != before {
		send(a.compacted)
	}
	if len(a.keep.expired(db.Blocks())) == 0 {
		return nil
	}
	// Compacting an empty range writes nothing, reloads the blocks and deletes expired ones.
	return db.CompactHead(tsdb.NewRangeHead(db.Head(), 0, 0))
}
