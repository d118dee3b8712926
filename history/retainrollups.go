package history

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/taredb/tare/internal/history/rollup"
)

// A retainedRollup is a rollup in the bucket with the labels of one of the instances.
type retainedRollup struct {
	rollup.Name
	object string
	bytes  int64 // 0 if there is no limit
	dayed  bool  // the rollup of its day exists too
}

// listRollups lists the rollups of all instances, the oldest first.
func (r *bucketRetainer) listRollups(ctx context.Context) (rollups []retainedRollup, err error) {
	sizes := make(map[string]int64)
	for _, in := range r.all() {
		lists, err := rollup.ListBucket(ctx, r.options.Bucket, in.hash)
		if err != nil {
			return nil, err
		}
		for _, l := range lists {
			days := make(map[int64]bool)
			for _, n := range l.Files {
				days[n.Start] = days[n.Start] || n.Span == rollup.Day
			}
			for _, n := range l.Files {
				up := retainedRollup{Name: n, object: path.Join(rollup.Prefix, l.Instance, l.Epoch, n.String())}
				up.dayed = days[n.Begin().Truncate(rollup.Day).Unix()]
				if r.limits.Bytes > 0 {
					if up.bytes, err = r.sizeOf(ctx, in, l.Epoch, &up); err != nil {
						return nil, err
					}
					sizes[up.object] = up.bytes
				}
				rollups = append(rollups, up)
			}
		}
	}
	r.sizes = sizes
	slices.SortFunc(rollups, func(a, b retainedRollup) int { return a.Compare(b.Name) })
	return rollups, nil
}

// sizeOf returns the size of a rollup, which never changes. It queries the bucket once for rollups that are
// not local.
func (r *bucketRetainer) sizeOf(ctx context.Context, in *instance, epoch string, up *retainedRollup) (int64, error) {
	if bytes, ok := r.sizes[up.object]; ok {
		return bytes, nil
	}
	if bytes := in.rollups.Size(up.Name); bytes > 0 && epoch == in.rollups.Epoch() {
		return bytes, nil
	}
	var bytes int64
	err := r.current().shipper.do(ctx, func(ctx context.Context) error {
		at, err := r.options.Bucket.Attributes(ctx, up.object)
		bytes = at.Size
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read size of %s: %w", up.object, err)
	}
	return bytes, nil
}

// expiredRollups returns the rollups older than the age limits of blocks and of local rollups. Of the others,
// hours may be deleted together with blocks by a limit in bytes, and days after them.
func (r *bucketRetainer) expiredRollups(now int64, rollups []retainedRollup) (old, hours, days []retainedRollup) {
	before := func(up *retainedRollup, age time.Duration) bool { return up.End().UnixMilli() < now-age.Milliseconds() }
	for _, up := range rollups {
		kept := max(r.limits.Age, r.options.RollupAge)
		if up.Span == rollup.Hour {
			kept = max(r.limits.Age, rollup.HourAge)
		}
		switch {
		case r.limits.Age > 0 && before(&up, kept+r.limits.Delay):
			old = append(old, up)
		case !before(&up, rollup.HourAge): // read by pages of other gateways
		case up.dayed && up.Span == rollup.Hour:
			hours = append(hours, up)
		default:
			days = append(days, up)
		}
	}
	return old, hours, days
}

// deleteRollups deletes rollups. They have no marks: readers list them for each query.
func (r *bucketRetainer) deleteRollups(ctx context.Context, rollups []retainedRollup) error {
	var errs []error
	for _, up := range rollups {
		if ctx.Err() != nil {
			break
		}
		if err := r.delete(ctx, up.object); err != nil {
			errs = append(errs, err)
			continue
		}
		r.counts.rollups.Add(1)
	}
	return errors.Join(errs...)
}

// report logs the deletions that a run without DryRun would execute.
func (r *bucketRetainer) report(blocks []retainedBlock, rollups []retainedRollup) {
	r.counts.pending.Store(int64(len(blocks)))
	if len(blocks)+len(rollups) == 0 {
		r.log.Info("bucket retention: a dry run found nothing to delete")
		return
	}
	var from, to int64
	span := func(begin, end int64) {
		if from == 0 || begin < from {
			from = begin
		}
		to = max(to, end)
	}
	var blockBytes, rollupBytes int64
	for _, b := range blocks {
		blockBytes += b.bytes
		span(b.mint, b.maxt)
		r.log.Debug("block would be deleted", "block", b.id, "bytes", b.bytes)
	}
	for _, up := range rollups {
		rollupBytes += up.bytes
		span(up.Begin().UnixMilli(), up.End().UnixMilli())
		r.log.Debug("rollup would be deleted", "rollup", up.object, "bytes", up.bytes)
	}
	r.log.Info("bucket retention: a dry run found blocks or rollups to delete", "blocks", len(blocks), "bytes", blockBytes,
		"rollups", len(rollups), "rollup_bytes", rollupBytes, "from", time.UnixMilli(from).UTC(), "to", time.UnixMilli(to).UTC())
}
