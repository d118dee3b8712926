package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/localstate"
)

// An instance is the series of one instance label: a head, local blocks, a ledger and rollups, in a
// directory. An Archive has one, and another one for each time that the clock was set back too far.
type instance struct {
	*Archive

	number  int               // from 1
	labels  map[string]string // of all series
	hash    string            // of labels
	dir     string
	base    int64       // milliseconds: the first samples, which include earlier counts; 0: no earlier instance
	ended   int64       // milliseconds: the newest samples of the previous instance
	drained atomic.Bool // past, and its log was removed: the samples are in blocks
	past    atomic.Bool // nothing is written to it any more

	db      *localdb.Database
	ledger  *ledger
	keep    retention
	local   *localdb.Directory
	writer  *writer
	shipper *shipper
	rollups *rollup.Store
	settled atomic.Int64 // milliseconds: no sample at or before this time will be written any more
	heap    atomic.Int64 // bytes, see HeapBytes
	whole   atomic.Int64 // milliseconds: all calls before it are in samples; 0 before the first round

	maintaining sync.Mutex            // locked while chunks or blocks are written or the database is replaced; after flushing
	damage      atomic.Pointer[error] // why the database must be reopened
	stopped     atomic.Bool           // fault is not nil

	compactable chan struct{} // signals maintain
	compacted   chan struct{} // signals shipAll
	recheck     chan struct{} // signals checkLedgers

	fault   *fault // under flushing; nil: samples are written
	weighed struct {
		at     int64  // milliseconds
		series uint64 // in the head at that time
	} // under flushing: when heap was stored
}

// openInstance opens the directory of an instance. past: nothing is written to it any more.
func (a *Archive) openInstance(r instanceRecord, past bool) (*instance, error) {
	o := &a.options
	in := &instance{
		Archive: a, number: r.Number, labels: r.labels(o.Labels), dir: filepath.Join(o.Dir, r.Dir), base: r.Base, ended: r.Ended,
		compactable: make(chan struct{}, 1), compacted: make(chan struct{}, 1), recheck: make(chan struct{}, 1),
	}
	in.hash = rollup.LabelsHash(in.labels)
	in.local = &localdb.Directory{Path: in.dir, State: o.State, Log: o.Log, Others: map[string]localstate.Piece{shippedName: shippedPiece}}
	in.shipper = newShipper(o.Bucket, in.dir, maps.Clone(in.labels), o.State, o.Log)
	var err error
	if in.rollups, err = rollup.OpenStore(rollup.StoreOptions{
		Dir: filepath.Join(in.dir, rollup.Prefix), Labels: maps.Clone(in.labels), Age: o.RollupAge,
		Space:  func(bytes int64) error { return checkSpace(o.Dir, in.spaceNeeded()+bytes) }, // rounds may use the remaining space
		Upload: in.shipper.bytes, State: o.State, Now: o.Now, Log: o.Log,
	}); err != nil {
		return nil, err
	}
	in.keep = retention{age: o.LocalAge, bytes: o.LocalBytes, safe: in.served, rolled: in.unneeded, past: in.past.Load, others: in.othersBytes}
	if in.ledger, err = openLedger(in.dir, o.State, o.Log); err != nil {
		return nil, err
	}
	empty := localdb.DirBytes(filepath.Join(in.dir, localdb.WALName)) == 0
	db, err := in.local.Open(in.expired)
	if err != nil {
		return nil, errors.Join(err, in.ledger.close())
	}
	in.db = localdb.NewDatabase(db)
	if in.writer, err = newWriter(db, o.Source, o.Tags, stmtseries.NewLabeller(in.labels), o.Interval, o.Now, o.Elapsed); err != nil {
		return nil, errors.Join(err, in.close())
	}
	in.writer.lastID = r.LastID
	if newest := in.rollups.Newest.Load(); newest > in.writer.last {
		if empty && in.writer.last == 0 { // the bucket may have all samples, up to the end of a block's range
			newest = (newest/BlockRange.Milliseconds() + 1) * BlockRange.Milliseconds()
		}
		in.writer.last, in.writer.good = newest, newest
	}
	if err := in.weigh(context.Background()); err != nil {
		return nil, errors.Join(err, in.close())
	}
	if past {
		in.drained.Store(empty)
		in.finish()
	}
	return in, nil
}

// finish makes an instance a past one: all of its samples become blocks and rollups.
func (in *instance) finish() {
	in.settled.Store(time.UnixMilli(in.writer.last).UTC().Truncate(rollup.Day).Add(rollup.Day).UnixMilli())
	in.past.Store(true)
	send(in.compactable)
}

// expired returns the blocks to delete. The TSDB deletes them next. A block that the gateway does not list yet is not lost if it is in
// the bucket.
func (in *instance) expired(blocks []*tsdb.Block) map[ulid.ULID]struct{} {
	expired := in.keep.expired(blocks)
	for _, b := range blocks {
		if _, gone := expired[b.Meta().ULID]; !gone {
			continue
		}
		if _, shipped := in.shipper.since(b.Meta().ULID); !shipped {
			in.blockLost(b.Meta())
		}
	}
	in.local.Forget(expired)
	return expired
}

// othersBytes returns the bytes of the blocks of later instances: past instances make room for them.
func (in *instance) othersBytes() (bytes int64) {
	later := false
	for _, other := range in.all() {
		if later {
			for _, b := range other.db.Current().Blocks() {
				bytes += b.Size()
			}
		}
		later = later || other == in
	}
	return bytes
}

// rolled reports whether all hours of a block are in rollups.
func (in *instance) rolled(m tsdb.BlockMeta) bool { return in.rollups.Until().UnixMilli() >= m.MaxTime }

// unneeded reports whether rollups no longer need samples of a block: the next one continues from the newest
// samples before it, however old they are.
func (in *instance) unneeded(m tsdb.BlockMeta) bool {
	if in.past.Load() {
		return in.drained.Load() && in.rollups.Until().UnixMilli() >= in.settled.Load()
	}
	return in.rolled(m) && in.rollups.Newest.Load()-rollup.BaseMargin.Milliseconds() >= m.MaxTime
}

func (in *instance) blockLost(m tsdb.BlockMeta) {
	in.lost.Add(1)
	in.forgetLedger(m)
	in.log.Error("a block is deleted that is not in the bucket, as local blocks have come to their limit",
		"block", m.ULID, "from", time.UnixMilli(m.MinTime).UTC(), "to", time.UnixMilli(m.MaxTime).UTC())
}

// shipAll ships new blocks until the context ends.
func (in *instance) shipAll(ctx context.Context) {
	for {
		if err := in.shipOnce(ctx); err != nil && ctx.Err() == nil {
			in.log.Warn("blocks could not be shipped; they are kept and tried again", "error", err)
		}
		if wait(ctx, in.compacted, shipEvery) != nil {
			return
		}
	}
}

// shipOnce ships new blocks, and determines which of the shipped ones were deleted from the bucket.
func (in *instance) shipOnce(ctx context.Context) error {
	in.local.Record(in.db.Current().BlockMetas())
	err := in.shipper.ship(ctx, in.db.Current().BlockMetas())
	in.shipper.checkReplaced(ctx, in.db.Current().BlockMetas(), func(id ulid.ULID) bool { return in.options.Gateway.Serves(noTenant, id) })
	return err
}

// rollAll creates rollups as hours end, until the context ends.
func (in *instance) rollAll(ctx context.Context) {
	for {
		if err := in.rollOnce(ctx); err != nil && ctx.Err() == nil {
			in.log.Warn("rollups could not be made, shipped or deleted; it is tried again", "error", err)
		}
		if wait(ctx, nil, shipEvery) != nil {
			return
		}
	}
}

// rollOnce creates the rollups of the hours that are over, ships them and deletes expired ones.
func (in *instance) rollOnce(ctx context.Context) error {
	settled := in.settled.Load()
	if settled == 0 {
		return nil // no round yet
	}
	return in.rollups.Work(ctx, hourSamples{in}, settled)
}

// round writes the counters of the source. The caller holds flushing.
func (in *instance) round(ctx context.Context, spread bool) error {
	if err := in.ready(); err != nil {
		return err
	}
	err := in.writer.round(ctx, spread)
	if in.writer.broken != nil {
		in.stop(in.writer.broken, true)
		return err
	}
	in.resume()
	in.written()
	if in.weightOutdated() && ctx.Err() == nil {
		err = errors.Join(err, in.weigh(ctx))
	}
	return err
}

// written records a completely written round.
func (in *instance) written() {
	in.recordRound()
	in.signalCompaction()
	in.settled.Store(in.writer.last)
	in.whole.Store(in.writer.began)
}

// recordRound adds a round to the ledger.
func (in *instance) recordRound() {
	w := in.writer
	line := ledgerLine{since: w.since, began: w.began, last: w.last, samples: w.done.samples, calls: w.done.calls}
	if err := in.ledger.add(&line); err != nil {
		in.log.Warn("round not recorded in the ledger: the self-check leaves it out", "err", err)
	}
}

// close closes the database and the ledger.
func (in *instance) close() (err error) {
	db := in.db.Current()
	blocks := db.BlockMetas()
	if closeErr := localdb.CloseDB(db); closeErr != nil {
		err = fmt.Errorf("close history: %w", closeErr)
	}
	in.local.Record(blocks)
	return errors.Join(err, in.ledger.close())
}
