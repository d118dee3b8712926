package history

import (
	"context"
	"errors"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/taredb/tare/internal/history/stmtseries"
)

// Hooks of the external tests. Those of an Archive do once what Run does at intervals, for all instances from
// the oldest to the current one.

// Round writes a round without pauses. Its error is ErrStopped while nothing is written.
func (a *Archive) Round(ctx context.Context) error { return a.round(ctx, false) }

// ErrStopped is the error of a round while history is stopped.
var ErrStopped = errStopped

// Maintain writes chunks and blocks, and deletes local blocks that are expired.
func (a *Archive) Maintain(ctx context.Context) error {
	return a.each(func(in *instance) error { return in.maintainOnce(ctx) })
}

// MaintainUnchecked is Maintain of the current instance on a disk that has become full after the check of
// the free space.
func (a *Archive) MaintainUnchecked(ctx context.Context) error {
	in := a.current()
	in.maintaining.Lock()
	defer in.maintaining.Unlock()
	return in.writeBlocks(ctx)
}

// LocalDir returns the directory of the current instance.
func (a *Archive) LocalDir() string { return a.current().dir }

// Overflow deletes all local blocks of the current instance as if they exceeded the limit in bytes. It returns their number, and how many
// blocks were lost so far.
func (a *Archive) Overflow() (deleted int, lost uint64) {
	in := a.current()
	in.keep.bytes = 1
	return len(in.expired(in.db.Current().Blocks())), a.lost.Load()
}

// Ship ships blocks.
func (a *Archive) Ship(ctx context.Context) error {
	return a.each(func(in *instance) error { return in.shipOnce(ctx) })
}

// RollUp creates and ships rollups.
func (a *Archive) RollUp(ctx context.Context) error {
	return a.each(func(in *instance) error { return in.rollOnce(ctx) })
}

// Retain marks and deletes blocks and rollups of the bucket.
func (a *Archive) Retain(ctx context.Context) error { return a.retain.once(ctx) }

// CheckLedgers compares the ledgers with the samples. It returns how many rounds of the current instance were
// compared since it was opened.
func (a *Archive) CheckLedgers(ctx context.Context) (compared uint64, err error) {
	err = a.each(func(in *instance) error { return in.checkLedger(ctx) })
	return a.current().ledger.compared.Load(), err
}

// RecheckLedgers makes the next CheckLedgers compare all rounds again.
func (a *Archive) RecheckLedgers() {
	_ = a.each(func(in *instance) error { in.ledger.recheck(); return nil })
}

// LedgerStages returns from where each file of the current ledger was compared last: head, blocks or bucket.
func (a *Archive) LedgerStages() (stages []string) {
	l := a.current().ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, start := range l.starts() {
		stages = append(stages, l.files[start].from.String())
	}
	return stages
}

// LimitCalls sets the pause between two tries of a call to the bucket, and the limit of one try; 0: the
// default.
func (a *Archive) LimitCalls(pause, limit time.Duration) {
	for _, in := range a.all() {
		in.shipper.pause, in.shipper.limit = pause, limit
		if limit == 0 {
			in.shipper.limit = shipTimeout
		}
	}
}

// FillDisk makes the disk appear full to rounds until free is called.
func (a *Archive) FillDisk() (free func()) {
	reserve := a.options.ReserveBytes
	a.options.ReserveBytes = 1 << 60 // more than any disk has
	return func() { a.options.ReserveBytes = reserve }
}

// DuringCompaction calls f whenever a block was written whose samples are still in the head.
func (a *Archive) DuringCompaction(f func()) {
	for _, in := range a.all() {
		past := in.keep.past
		in.keep.past = func() bool { f(); return past() }
	}
}

// FinishHead writes blocks of all samples of a head, which the head of a past instance does before its log is
// removed.
var FinishHead = finishHead

// Expired returns which of the local blocks are deleted for their age and size, all of which are in rollups.
func Expired(blocks []*tsdb.Block, age time.Duration, bytes int64, served func(ulid.ULID) bool) map[ulid.ULID]struct{} {
	return retention{age: age, bytes: bytes, safe: served, rolled: func(tsdb.BlockMeta) bool { return true }}.expired(blocks)
}

// CommitKeys is the number of Keys in a commit of a round that is not late.
const CommitKeys = batchKeys

// A HeadWriter writes rounds to a head without an Archive.
type HeadWriter struct{ w *writer }

// NewHeadWriter returns a HeadWriter of a source.
func NewHeadWriter(db *tsdb.DB, source Source, interval time.Duration, now func() time.Time) (HeadWriter, error) {
	labels := stmtseries.NewLabeller(map[string]string{InstanceLabel: "gw-1"})
	w, err := newWriter(db, source, nil, labels, interval, now, func() time.Duration { return 0 })
	return HeadWriter{w}, err
}

// Round writes a round without pauses.
func (h HeadWriter) Round(ctx context.Context) error { return h.w.round(ctx, false) }

// HeapBytes returns the heap bytes of the head and the writer, as Archive.HeapBytes does.
func (h HeadWriter) HeapBytes(ctx context.Context) (int64, error) {
	head, err := weighHead(ctx, h.w.db.Head())
	return head + h.w.heapBytes(), err
}

// each calls f for all instances, and joins the errors.
func (a *Archive) each(f func(*instance) error) error {
	var errs []error
	for _, in := range a.all() {
		errs = append(errs, f(in))
	}
	return errors.Join(errs...)
}

func (o *ArchiveOptions) Validate() error { return o.validate() }
