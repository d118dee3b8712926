package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/store/tsblock"
)

// BucketRetention specifies which blocks and rollups with the labels of an Archive are deleted from its
// bucket.
type BucketRetention struct {
	Age    time.Duration // 0: no limit
	Bytes  int64         // of blocks and rollups; 0: no limit
	Delay  time.Duration // from the deletion mark of a block to its deletion; default 48h
	DryRun bool          // log the deletions without executing them
}

// MinRetentionDelay is the minimum delay after which readers have dropped a block before it is deleted.
const MinRetentionDelay = 2 * time.Hour

// retainEvery is the interval between checks of the bucket.
const retainEvery = time.Hour

const markName = "deletion-mark.json"

// retainMark is Thanos' deletion-mark.json, version 1.
type retainMark struct {
	ID      ulid.ULID `json:"id"`
	Version int       `json:"version"`
	Details string    `json:"details"`
	Time    int64     `json:"deletion_time"` // Unix seconds
}

// A retainedBlock describes a block with the labels of one of the instances.
type retainedBlock struct {
	id         ulid.ULID
	mint, maxt int64
	bytes      int64
	of         *instance // whose labels it has
}

// A bucketRetainer deletes expired blocks and rollups from the bucket. It changes only blocks that have
// exactly the labels of one of the instances and were uploaded by Tare.
type bucketRetainer struct {
	*Archive
	limits BucketRetention
	own    map[ulid.ULID]retainedBlock
	others map[ulid.ULID]bool // blocks of others; true: of a compactor
	marked map[ulid.ULID]bool // by this gateway; nil before the first run
	sizes  map[string]int64   // of rollups that are not local, by name
	counts retainCounts
}

type retainCounts struct {
	marked, deleted, rollups atomic.Uint64
	failures                 atomic.Uint64
	pending                  atomic.Int64 // blocks that are marked, or would be without DryRun
	bytes                    atomic.Int64 // of blocks and rollups; 0 without a limit
	refused                  atomic.Bool
}

func newBucketRetainer(a *Archive) *bucketRetainer {
	return &bucketRetainer{Archive: a, limits: a.options.Retention, own: make(map[ulid.ULID]retainedBlock), others: make(map[ulid.ULID]bool), sizes: make(map[string]int64)}
}

// run checks the bucket until the context ends.
func (r *bucketRetainer) run(ctx context.Context) {
	if r.limits.Age == 0 && r.limits.Bytes == 0 {
		return
	}
	for {
		if r.Waiting() != nil {
			if wait(ctx, nil, r.options.Interval) != nil {
				return
			}
			continue
		}
		if err := r.once(ctx); err != nil && ctx.Err() == nil {
			r.counts.failures.Add(1)
			r.log.Warn("bucket retention failed; it is retried", "err", err)
		}
		if wait(ctx, nil, retainEvery) != nil {
			return
		}
	}
}

// errCompactor is the error of a bucket in which another process deletes blocks.
var errCompactor = errors.New("a compactor owns the bucket: set its retention instead of option history-retention")

// once marks and deletes expired blocks and rollups.
func (r *bucketRetainer) once(ctx context.Context) error {
	broken, err := r.list(ctx)
	if err != nil {
		return fmt.Errorf("list blocks: %w", err)
	}
	for id, compacted := range r.others {
		if compacted {
			r.counts.refused.Store(true)
			return fmt.Errorf("%w (block %s)", errCompactor, id)
		}
	}
	r.counts.refused.Store(false)
	rollups, err := r.listRollups(ctx)
	if err != nil {
		return err
	}
	if len(r.own)+len(rollups) == 0 {
		return nil
	}
	now := r.reference(rollups)
	blocks, old := r.expired(now, rollups)
	if r.limits.DryRun {
		r.report(blocks, old)
		return nil
	}
	errs := []error{r.blocks(ctx, blocks)}
	for _, id := range broken {
		errs = append(errs, r.finish(ctx, id))
	}
	return errors.Join(append(errs, r.deleteRollups(ctx, old))...)
}

// reference returns the time from which ages are computed: that of the newest block or rollup if the clock is
// ahead of it, so that a jumping clock deletes nothing.
func (r *bucketRetainer) reference(rollups []retainedRollup) int64 {
	newest := int64(0)
	for _, b := range r.own {
		newest = max(newest, b.maxt)
	}
	for _, up := range rollups {
		newest = max(newest, up.End().UnixMilli())
	}
	return min(newest, r.options.Now().UnixMilli())
}

// list reads meta.json of blocks that appeared since the last call. It returns directories without one.
func (r *bucketRetainer) list(ctx context.Context) (broken []ulid.ULID, err error) {
	present := make(map[ulid.ULID]bool)
	if err := r.options.Bucket.Iter(ctx, "", func(name string) error {
		if id, err := ulid.ParseStrict(strings.TrimSuffix(name, "/")); err == nil && strings.HasSuffix(name, "/") {
			present[id] = true
		}
		return nil
	}); err != nil {
		return nil, err
	}
	maps.DeleteFunc(r.own, func(id ulid.ULID, _ retainedBlock) bool { return !present[id] })
	maps.DeleteFunc(r.others, func(id ulid.ULID, _ bool) bool { return !present[id] })
	for id := range present {
		_, own := r.own[id]
		if _, other := r.others[id]; own || other {
			continue
		}
		text, err := r.read(ctx, path.Join(id.String(), tsblock.MetaFile))
		if err != nil {
			return nil, err
		}
		if text == nil {
			broken = append(broken, id)
			continue
		}
		m, err := tsblock.ParseMeta(text)
		if err != nil {
			continue // an interrupted upload, or a foreign directory
		}
		of := r.instanceOf(m.Thanos.Labels)
		if m.ULID == id && m.Thanos.Source == metaSource && of != nil && m.Compaction.Level <= 1 && m.Thanos.Downsample.Resolution == 0 {
			b := retainedBlock{id: id, mint: m.MinTime, maxt: m.MaxTime, of: of}
			for _, f := range m.Thanos.Files {
				b.bytes += f.Bytes
			}
			r.own[id] = b
			continue
		}
		r.others[id] = m.Compaction.Level > 1 || m.Thanos.Downsample.Resolution > 0 || strings.HasPrefix(m.Thanos.Source, "compactor")
	}
	return broken, nil
}

// instanceOf returns the instance with these labels; nil if there is none.
func (r *bucketRetainer) instanceOf(labels map[string]string) *instance {
	for _, in := range r.all() {
		if maps.Equal(labels, in.labels) {
			return in
		}
	}
	return nil
}

// read returns a small object; nil if it does not exist.
func (r *bucketRetainer) read(ctx context.Context, name string) (text []byte, err error) {
	err = r.current().shipper.do(ctx, func(ctx context.Context) error {
		text = nil
		reader, err := r.options.Bucket.Get(ctx, name)
		if blocksync.IsObjectNotFound(r.options.Bucket, err) {
			return nil
		}
		if err != nil {
			return err
		}
		text, err = io.ReadAll(io.LimitReader(reader, maxMeta))
		if text == nil {
			text = []byte{}
		}
		return errors.Join(err, reader.Close())
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return text, nil
}

// expired returns the blocks and rollups to delete, the oldest first. Blocks that are also local are kept.
func (r *bucketRetainer) expired(now int64, rollups []retainedRollup) (blocks []retainedBlock, old []retainedRollup) {
	local := make(map[ulid.ULID]bool)
	for _, in := range r.all() {
		for _, m := range in.db.Current().BlockMetas() {
			local[m.ULID] = true
		}
	}
	var total int64
	all := make([]retainedBlock, 0, len(r.own))
	for _, b := range r.own {
		total += b.bytes
		all = append(all, b)
	}
	for _, up := range rollups {
		total += up.bytes
	}
	r.counts.bytes.Store(total)
	old, hours, days := r.expiredRollups(now, rollups)
	for _, up := range old {
		total -= up.bytes
	}
	large := func() bool { return r.limits.Bytes > 0 && total > r.limits.Bytes }
	dropHours := func(before int64) {
		for len(hours) > 0 && hours[0].End().UnixMilli() <= before && large() {
			total -= hours[0].bytes
			old, hours = append(old, hours[0]), hours[1:]
		}
	}
	slices.SortFunc(all, func(a, b retainedBlock) int { return cmp.Or(cmp.Compare(a.maxt, b.maxt), a.id.Compare(b.id)) })
	for _, b := range all {
		dropHours(b.maxt)
		aged := r.limits.Age > 0 && b.maxt < now-r.limits.Age.Milliseconds()
		if local[b.id] || !aged && !large() || !b.of.rolled(tsdb.BlockMeta{MaxTime: b.maxt}) {
			continue
		}
		total -= b.bytes
		blocks = append(blocks, b)
	}
	// Rollups of days are the only record of long ranges, and are small: they are deleted last.
	dropHours(math.MaxInt64)
	hours = days
	dropHours(math.MaxInt64)
	return blocks, old
}

// blocks marks expired blocks, deletes those that were marked for long enough, and removes its marks from
// blocks that are no longer expired.
func (r *bucketRetainer) blocks(ctx context.Context, expired []retainedBlock) error {
	check := make(map[ulid.ULID]bool) // true: expired
	for id := range r.own {
		if r.marked == nil || r.marked[id] {
			check[id] = false
		}
	}
	for _, b := range expired {
		check[b.id] = true
	}
	marked := make(map[ulid.ULID]bool)
	var errs []error
	for _, id := range slices.SortedFunc(maps.Keys(check), ulid.ULID.Compare) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		left, err := r.block(ctx, id, check[id])
		if err != nil {
			errs = append(errs, fmt.Errorf("block %s: %w", id, err))
		}
		if left {
			marked[id] = true
		}
	}
	r.marked = marked
	r.counts.pending.Store(int64(len(marked)))
	return errors.Join(errs...)
}

// block executes the next step for a block. It reports whether the block has a mark of this gateway, or may
// have one.
func (r *bucketRetainer) block(ctx context.Context, id ulid.ULID, expired bool) (marked bool, err error) {
	at, own, err := r.mark(ctx, id)
	switch {
	case err != nil:
		return true, err
	case !own && !at.IsZero():
		return false, nil // marked by another process, which deletes it
	case !own && !expired:
		return false, nil
	case !own:
		return true, r.setMark(ctx, id)
	case !expired:
		r.log.Info("deletion mark removed: the block no longer expires", "block", id)
		return false, r.delete(ctx, path.Join(id.String(), markName))
	case r.options.Now().Sub(at) < r.limits.Delay:
		return true, nil
	}
	return true, r.remove(ctx, id)
}

func (r *bucketRetainer) details() string {
	return "retention of tare serve, labels " + rollup.LabelsHash(r.options.Labels)
}

// mark returns when a block was marked, and whether by this gateway; a zero time if it is not marked.
func (r *bucketRetainer) mark(ctx context.Context, id ulid.ULID) (at time.Time, own bool, err error) {
	text, err := r.read(ctx, path.Join(id.String(), markName))
	if err != nil || text == nil {
		return at, false, err
	}
	var m retainMark
	if err := json.Unmarshal(text, &m); err != nil || m.Version != 1 {
		return time.Unix(0, 0), false, nil //nolint:nilerr // it is not this gateway's
	}
	return time.Unix(m.Time, 0), m.ID == id && m.Details == r.details(), nil
}

func (r *bucketRetainer) setMark(ctx context.Context, id ulid.ULID) error {
	text, err := json.MarshalIndent(retainMark{ID: id, Version: 1, Details: r.details(), Time: r.options.Now().Unix()}, "", "\t")
	if err != nil {
		return err
	}
	if err := r.current().shipper.object(ctx, path.Join(id.String(), markName), func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(text)), nil
	}); err != nil {
		return err
	}
	r.counts.marked.Add(1)
	r.log.Info("block marked for deletion", "block", id, "deleted_in", r.limits.Delay)
	return nil
}

// remove deletes a block: meta.json first, so that the rest after a kill is no block, and the mark last, by
// which the next run finds it.
func (r *bucketRetainer) remove(ctx context.Context, id ulid.ULID) error {
	meta, mark := path.Join(id.String(), tsblock.MetaFile), path.Join(id.String(), markName)
	var files []string
	if err := r.options.Bucket.Iter(ctx, id.String(), func(name string) error {
		if name != meta && name != mark && !strings.HasSuffix(name, "/") {
			files = append(files, name)
		}
		return nil
	}, objstore.WithRecursiveIter()); err != nil {
		return fmt.Errorf("list its files: %w", err)
	}
	for _, name := range slices.Concat([]string{meta}, files, []string{mark}) {
		if err := r.delete(ctx, name); err != nil {
			return err
		}
	}
	delete(r.own, id)
	r.counts.deleted.Add(1)
	r.log.Info("block deleted from the bucket", "block", id, "files", len(files)+1)
	return nil
}

// delete deletes an object. A missing object is not an error.
func (r *bucketRetainer) delete(ctx context.Context, name string) error {
	err := r.current().shipper.do(ctx, func(ctx context.Context) error {
		err := r.options.Bucket.Delete(ctx, name)
		if err == nil || blocksync.IsObjectNotFound(r.options.Bucket, err) {
			return nil
		}
		if ok, there := r.options.Bucket.Exists(ctx, name); there == nil && !ok {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	return nil
}

// finish completes a deletion that was interrupted.
func (r *bucketRetainer) finish(ctx context.Context, id ulid.ULID) error {
	at, own, err := r.mark(ctx, id)
	if err != nil || !own || r.options.Now().Sub(at) < r.limits.Delay {
		return err
	}
	return r.remove(ctx, id)
}
