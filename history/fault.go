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

	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/localstate"
)

// Files that guard against a full disk.
const (
	reserveName = "reserve"
	probeName   = "probe"
)

// spacePerSeries is the free space kept per series of the head: its finished chunks are written together, and
// the TSDB panics if a chunk cannot be written.
const spacePerSeries = 1 << 10

var faultPiece = localstate.Piece{Name: "history samples", Lost: "samples within the range; counters continue, and the next samples include its calls"}

// errStopped is the error of rounds that write nothing because of a fault.
var errStopped = errors.New("history is stopped after a failed write")

// A fault is the reason why nothing is appended. The TSDB appends after a partly written record, and its
// repair at the next start removes everything after it: nothing may be appended before the database is
// reopened.
type fault struct {
	cause  error
	broken bool // the database must be reopened
}

// stop starts a fault. The caller holds flushing.
func (in *instance) stop(cause error, broken bool) {
	if in.fault != nil {
		in.fault.broken = in.fault.broken || broken
		return
	}
	in.fault = &fault{cause: cause, broken: broken}
	in.stopped.Store(true)
	// The space is needed to record the fault and to close the database.
	if err := os.Remove(filepath.Join(in.options.Dir, reserveName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		in.log.Error("history reserve not freed", "err", err)
	}
	from := time.UnixMilli(in.writer.good)
	in.log.Error("history stopped; counters continue", "since", from.UTC(), "err", cause)
	if err := in.faults.start(from, cause); err != nil {
		in.log.Error("history fault not recorded", "err", err)
	}
}

// ready returns an error if samples cannot be appended: it starts a fault if the disk is almost full, and
// repairs one if the disk accepts writes again. The caller holds flushing.
func (in *instance) ready() error {
	if cause := in.damage.Swap(nil); cause != nil {
		in.stop(*cause, true)
	}
	need := in.spaceNeeded()
	if in.fault != nil {
		need += need/4 + in.options.ReserveBytes
	}
	if err := checkSpace(in.options.Dir, need); err != nil {
		in.stop(err, false)
		return fmt.Errorf("%w: %w", errStopped, err)
	}
	if in.fault == nil {
		return nil
	}
	if err := probe(in.options.Dir); err != nil {
		return fmt.Errorf("%w: %w", errStopped, err)
	}
	if in.fault.broken {
		if err := in.reopen(); err != nil {
			return fmt.Errorf("%w: reopen: %w", errStopped, err)
		}
		in.fault.broken = false
	}
	return nil
}

// reopen closes the database and opens it again, which repairs its log, and resets the writer.
func (in *instance) reopen() error {
	in.maintaining.Lock()
	defer in.maintaining.Unlock()
	if err := in.db.Replace(func() (*tsdb.DB, error) { return in.local.Reopen(in.expired) }); err != nil {
		return err
	}
	in.damage.Store(nil) // of the closed database
	in.options.Source.MarkAllChanged()
	in.ledger.recheck()
	send(in.recheck)
	return in.writer.restart(in.db.Current())
}

// resume ends a fault after a round that was completely written. The caller holds flushing.
func (in *instance) resume() {
	stopped := in.fault != nil
	in.fault = nil
	in.stopped.Store(false)
	lost, ok, err := in.faults.finish(time.UnixMilli(in.writer.last))
	if err != nil {
		in.log.Error("end of history fault not recorded", "err", err)
	}
	if ok {
		in.options.State.Report(localstate.Loss{
			Piece: faultPiece, Path: in.options.Dir,
			Cause: fmt.Sprintf("%s to %s: %s", lost.From.Format(time.RFC3339), lost.To.Format(time.RFC3339), lost.Cause),
		})
	}
	if stopped {
		in.local.Record(in.db.Current().BlockMetas())
		if err := allocateReserve(in.options.Dir, in.options.ReserveBytes); err != nil {
			in.log.Warn("history reserve not allocated", "err", err)
		}
	}
}

// spaceNeeded returns the free space below which nothing is written.
func (in *instance) spaceNeeded() int64 {
	return in.options.ReserveBytes + int64(in.db.Current().Head().NumSeries())*spacePerSeries
}

// checkSpace returns an error if fewer bytes are free.
func checkSpace(dir string, need int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("free space of %s: %w", dir, err)
	}
	if free := int64(st.Bavail) * int64(st.Bsize); free < need {
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
	err = localstate.Allocate(f, bytes)
	if errors.Is(err, errors.ErrUnsupported) {
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

// maintainEvery is the interval at which chunks and blocks are written, as by the TSDB itself.
const maintainEvery = time.Minute

// maintain writes finished chunks and blocks until the context ends.
func (in *instance) maintain(ctx context.Context) {
	for wait(ctx, in.compactable, maintainEvery) == nil {
		if err := in.maintainOnce(ctx); err != nil && ctx.Err() == nil {
			in.log.Error("history compaction failed; it is retried", "err", err)
		}
	}
}

// wait blocks for a time, or until there is a signal or the context ends.
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
func (in *instance) signalCompaction() {
	if head := in.db.Current().Head(); head.MaxTime()-head.MinTime() > BlockRange.Milliseconds()*3/2 {
		send(in.compactable)
	}
}

// maintainOnce writes chunks and blocks unless writing has stopped, or is about to.
func (in *instance) maintainOnce(ctx context.Context) error {
	in.maintaining.Lock()
	defer in.maintaining.Unlock()
	if in.stopped.Load() {
		return nil
	}
	if err := checkSpace(in.options.Dir, in.spaceNeeded()); err != nil {
		return nil //nolint:nilerr // the next round stops history and reports it
	}
	return in.writeBlocks(ctx)
}

// writeBlocks writes finished chunks of the head, compacts it, and deletes expired blocks. The TSDB panics if
// it cannot write a chunk; the next round then reopens it. The caller holds maintaining.
func (in *instance) writeBlocks(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("write chunks: %v", r)
			in.damage.Store(&err)
		}
	}()
	db := in.db.Current()
	db.ForceHeadMMap()
	before := len(db.Blocks())
	if in.past.Load() && !in.drained.Load() {
		if err := in.drain(); err != nil {
			return err
		}
		db = in.db.Current()
	}
	if err := db.Compact(ctx); err != nil {
		return err
	}
	if len(db.Blocks()) != before {
		send(in.compacted)
	}
	if len(in.keep.expired(db.Blocks())) == 0 {
		return nil
	}
	// Compacting an empty range writes nothing, reloads the blocks and deletes expired ones.
	return db.CompactHead(tsdb.NewRangeHead(db.Head(), 0, 0))
}

// drain writes blocks of all samples of a past instance, and removes its log. Otherwise samples whose blocks
// are deleted later would be replayed from it.
func (in *instance) drain() error {
	if err := finishHead(in.db.Current()); err != nil {
		return err
	}
	if err := in.db.Replace(func() (*tsdb.DB, error) {
		for _, name := range []string{localdb.WALName, localdb.HeadName} {
			if err := os.RemoveAll(filepath.Join(in.dir, name)); err != nil {
				return nil, err
			}
		}
		return in.local.Reopen(in.expired)
	}); err != nil {
		return err
	}
	in.drained.Store(true)
	send(in.compacted)
	return nil
}

// finishHead writes blocks of all samples of the head.
func finishHead(db *tsdb.DB) error {
	head, step := db.Head(), BlockRange.Milliseconds()
	for head.NumSeries() > 0 {
		from := head.MinTime()
		to := (from/step + 1) * step
		if err := db.CompactHead(tsdb.NewRangeHead(head, from, to-1)); err != nil {
			return err
		}
		if head.NumSeries() > 0 && head.MinTime() < to {
			return fmt.Errorf("the head still has samples of %d after a block up to %d", head.MinTime(), to)
		}
	}
	return nil
}
