package blocksync

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/taredb/tare/internal/parallel"
	"github.com/taredb/tare/store/tsblock"
)

// maxRetention bounds the time for which a deleted block is served while other blocks are unreadable: one of
// them may be the block that it was compacted into.
const maxRetention = 10 * time.Minute

// Sync compares the served blocks with the bucket once. If the bucket fails, the known blocks are still
// served, together with new ones that were readable, and the error names the failures. Run calls Sync; tests
// and tools may call it too.
func (s *Syncer) Sync(ctx context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	return s.syncLocked(ctx)
}

// Resync blocks until a sync that started after the call has finished. Concurrent requests that read deleted
// blocks share one sync.
func (s *Syncer) Resync(ctx context.Context) error {
	begun := s.syncsBegun.Load()
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	if s.syncsBegun.Load() > begun && s.synced {
		return nil
	}
	return s.syncLocked(ctx)
}

// lock blocks until no other sync runs.
func (s *Syncer) lock(ctx context.Context) error {
	select {
	case s.syncing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Syncer) unlock() { <-s.syncing }

// ResyncAfter resyncs if err reports an object that is not in the bucket. It reports whether it did, and if
// so, whether the object's block is still served: then the object exists, or the bucket does not respond. A block of
// which another request does not find the object either is damaged: see SkipDamaged. A request cannot read a block a
// second time that is no longer served. A sync that fails because of other blocks is enough if it has found that this
// one was deleted.
func (s *Syncer) ResyncAfter(ctx context.Context, err error) (resynced, served bool) {
	if !IsNotFound(err) {
		return false, false
	}
	failed := s.Resync(ctx)
	tenant, id, file, ok := missingBlock(err)
	if failed != nil && (!ok || ctx.Err() != nil || s.Serves(tenant, id)) {
		return false, false
	}
	if !ok || !s.Serves(tenant, id) {
		return true, !ok
	}
	if _, err := s.reader.attributes(ctx, path.Join(prefixOf(tenant, id), file)); !IsNotFound(err) {
		return true, true
	}
	return true, !s.skipDamaged(ctx, tenant, id, file+" is missing")
}

// syncLocked implements Sync. The caller has called lock.
func (s *Syncer) syncLocked(ctx context.Context) (err error) {
	s.syncsBegun.Add(1)
	s.forgetDamage(time.Now())
	defer func() { s.synced = err == nil }()
	start := time.Now()
	old := s.current()
	set, changes, err := s.buildSet(ctx, old)
	switch {
	case ctx.Err() != nil:
		set.discard(old)
		return context.Cause(ctx)
	case set == nil:
	case !s.exchange(old, set):
		return errClosed
	default:
		s.finishSync(ctx, set, err)
	}
	s.recordSync(start, changes, err)
	return err
}

// finishSync runs the steps that follow a new set.
func (s *Syncer) finishSync(ctx context.Context, set *blockSet, err error) {
	if s.options.EagerHeaders {
		s.loadEagerly(ctx, set)
	}
	if err != nil || s.ready.Load() || ctx.Err() != nil {
		return
	}
	if err := s.cleanLocal(set); err != nil {
		s.log.Warn("local files of deleted blocks not removed", "error", err)
	}
	s.cleanDisk(set)
	s.ready.Store(true)
}

// loadEagerly loads the index headers of all blocks. A header that cannot be loaded is loaded again by the
// first query that needs it, which fails if that fails too.
func (s *Syncer) loadEagerly(ctx context.Context, set *blockSet) {
	_ = parallel.ForEach(ctx, s.options.HeaderLoads, slices.Collect(set.all()), func(ctx context.Context, b *block) error {
		if err := s.loadHeader(ctx, b); err != nil && ctx.Err() == nil {
			s.log.Warn("an index header was not loaded ahead", "block", b.id, "error", err)
		}
		return nil
	})
}

// syncChanges counts the changes of a sync.
type syncChanges struct{ added, removed int }

// buildSet builds the new set from a listing of the bucket, the blocks of the served set old and new ones. It returns
// a nil set if no tenant could be examined.
func (s *Syncer) buildSet(ctx context.Context, old *blockSet) (*blockSet, syncChanges, error) {
	if dir := s.options.LocalBucket; dir != "" { // objstore treats a missing directory as an empty one
		if _, err := os.Stat(dir); err != nil {
			return nil, syncChanges{}, fmt.Errorf("list the bucket: %w", err)
		}
	}
	layout, err := s.arrangement(ctx)
	if err != nil {
		return nil, syncChanges{}, err
	}
	if layout == nil { // no blocks in the bucket
		return newBlockSet(), syncChanges{removed: old.size()}, nil
	}
	tenants, others, err := layout.tenants(ctx)
	if err != nil {
		return nil, syncChanges{}, err
	}
	var (
		mu      sync.Mutex
		set     = newBlockSet()
		changes syncChanges
		errs    []error
	)
	set.foreign, set.stranger = others.foreign, others.example
	root := tenantSync{syncer: s, layout: layout, root: true, old: old.root, result: newTenant()}
	root.skipOdd(ctx, others.odd)
	set.root = root.result               // of no tenant: no query misses them
	for tenant, t := range old.tenants { // the listing may lack the directory
		if !t.unknown() && !slices.Contains(tenants, tenant) {
			tenants = append(tenants, tenant)
		}
	}
	_ = parallel.ForEach(ctx, s.options.Concurrency, tenants, func(ctx context.Context, tenant string) error {
		one := tenantSync{syncer: s, layout: layout, tenant: tenant, old: old.tenants[tenant]}
		t, err := one.run(ctx)
		mu.Lock()
		defer mu.Unlock()
		if t != nil {
			set.tenants[tenant] = t
		}
		changes.added += one.added
		changes.removed += one.removed
		if err != nil && len(errs) < maxSyncErrors {
			errs = append(errs, err)
		}
		return nil
	})
	for tenant, t := range old.tenants {
		if set.tenants[tenant] == nil {
			changes.removed += len(t.blocks)
		}
	}
	if err := s.suspectEmpty(old, set); err != nil && len(errs) == 0 {
		return nil, syncChanges{}, err
	}
	return set, changes, errors.Join(errs...)
}

// suspectEmpty returns an error if a bucket with served blocks is suddenly empty: a directory looks the same
// when its disk is unmounted. The empty listing is trusted only after a while.
func (s *Syncer) suspectEmpty(old, set *blockSet) error {
	if old.size() == 0 || !set.empty() {
		s.emptySince = time.Time{}
		return nil
	}
	if s.emptySince.IsZero() {
		s.emptySince = time.Now()
	}
	if time.Since(s.emptySince) >= maxRetention {
		return nil
	}
	return fmt.Errorf("nothing is left in the bucket, of %d blocks: believed if it stays so for %s", old.size(), maxRetention)
}

// empty reports whether no tenant has any block, served or not.
func (s *blockSet) empty() bool {
	for _, t := range s.tenants {
		if !t.empty() {
			return false
		}
	}
	return true
}

// maxSyncErrors bounds the errors that a sync of many tenants returns.
const maxSyncErrors = 8

// A tenantSync syncs one tenant once.
type tenantSync struct {
	syncer *Syncer
	layout arrangement
	tenant string
	root   bool    // the entries beside the tenants
	old    *Tenant // nil: the tenant is new

	outside map[ulid.ULID]blockTimes // blocks that the previous sync found outside the time range

	added, removed int

	mu     sync.Mutex
	result *Tenant
	failed atomic.Int64 // blocks whose objects the bucket failed to return
	first  error        // first of those errors, under mu
}

// run returns the tenant's blocks. If the tenant could not be listed it returns the previous ones, or nil if
// there are none.
func (s *tenantSync) run(ctx context.Context) (*Tenant, error) {
	if s.old == nil {
		s.old = newTenant()
	}
	l, err := s.layout.list(ctx, s.tenant)
	if err != nil {
		if s.old.unknown() {
			return nil, err
		}
		kept := *s.old
		kept.err = err
		return &kept, err
	}
	s.result = newTenant()
	s.result.times = s.syncer.options.Times
	if s.result.absent = l.absent; l.absent && !s.old.absent && len(s.syncer.options.Tenants) > 0 {
		s.syncer.log.Warn("the bucket has nothing of a chosen tenant: check option tenants and the bucket URL", "tenant", s.tenant)
	}
	s.outside = s.old.outside()
	s.result.foreign, s.result.stranger = l.foreign, l.example
	var owned, others []ulid.ULID
	for id := range l.blocks {
		if s.syncer.options.Shard.Owns(id) {
			owned = append(owned, id)
		} else {
			others = append(others, id)
		}
	}
	s.result.others = len(others)
	err = parallel.ForEach(ctx, s.syncer.options.Concurrency, owned, func(ctx context.Context, id ulid.ULID) error {
		s.syncBlock(ctx, id, l.blocks[id])
		return context.Cause(ctx)
	})
	if err == nil && !l.partial {
		err = s.confirmUnlisted(ctx, l)
	}
	if err == nil {
		err = parallel.ForEach(ctx, s.syncer.options.Concurrency, others, func(ctx context.Context, id ulid.ULID) error {
			s.syncOtherShard(ctx, id, l.blocks[id])
			return context.Cause(ctx)
		})
	}
	if err != nil { // the sync was cancelled: Sync discards the rest
		return s.result, err
	}
	s.skipOdd(ctx, l.odd)
	s.retainRemoved(time.Now())
	s.result.sort()
	s.result.coverage = newCoverage(s.result)
	s.result.collectGaps()
	if n := s.failed.Load(); n > 0 {
		s.result.err = fmt.Errorf("%d blocks are unreadable, one of them: %w", n, s.first)
	} else if m := (Missing{suspects: s.result.suspectGaps()}); len(m.suspects) > 0 {
		s.result.err = errors.New(m.Warnings()[0])
	}
	return s.result, s.result.err
}

// syncBlock decides whether a block is served.
func (s *tenantSync) syncBlock(ctx context.Context, id ulid.ULID, f *found) {
	b := s.old.byID[id]
	var err error
	var times blockTimes
	if b != nil {
		times = blockTimes{true, b.minTime, b.maxTime, b.external}
		err = s.recheck(ctx, b, f)
	} else if held, damaged := s.syncer.heldDamaged(s.tenant, id); damaged != nil {
		times, err = held, damaged
	} else if known, ok := s.outside[id]; ok && s.result.times.outside(known) {
		times, err = known, s.result.times.skip(known)
	} else {
		b, err = s.examine(ctx, id, f, &times)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		if s.old.byID[id] == nil {
			s.added++
		}
		b.missingSince.Store(0)
		s.result.add(b)
		return
	}
	v := verdictOf(err)
	switch {
	case v != nil:
	case IsNotFound(err): // deleted after the listing
		v = &verdict{SkipNoMeta, err.Error()}
	case accessDenied(s.syncer.reader.bucket, err):
		v = &verdict{SkipAccessDenied, err.Error()}
	default:
		v = &verdict{SkipUnreadable, err.Error()}
		if s.failed.Add(1) == 1 {
			s.first = err
		}
	}
	s.result.skipped = append(s.result.skipped, SkippedBlock{
		ID: id.String(), Tenant: s.tenant, Reason: v.reason, Detail: v.detail,
		MinTime: times.mint, MaxTime: times.maxt, times: times, deleting: f.saw&sawDeletionMark != 0,
	})
}

// recheck checks a block that is served already.
func (s *tenantSync) recheck(ctx context.Context, b *block, f *found) error {
	if times := (blockTimes{true, b.minTime, b.maxTime, b.external}); s.result.times.outside(times) {
		return s.result.times.skip(times)
	}
	if f.saw&sawFiles != 0 && f.saw&sawMeta == 0 {
		return s.unlisted(ctx, b)
	}
	if err := s.checkDeleted(ctx, b); err != nil {
		return err
	}
	b.noCompact.Store(f.saw&sawNoCompact != 0)
	if f.saw&sawDeletionMark == 0 {
		b.marked.Store(0)
		b.unreadableMark = false
		return nil
	}
	if b.marked.Load() == 0 || b.unreadableMark {
		marked, unreadable, err := s.markedAt(ctx, b.id, f)
		if err != nil {
			return nil // still served; the mark is read again at the next sync
		}
		if b.unreadableMark = unreadable; !unreadable || b.marked.Load() == 0 {
			b.marked.Store(marked)
		}
	}
	return s.syncer.checkMark(b.marked.Load())
}

// checkMark returns a verdict on a block that was marked for deletion longer than the delay ago; marked is 0
// if it was not marked.
func (s *Syncer) checkMark(marked int64) error {
	if marked == 0 {
		return nil
	}
	at := time.Unix(marked, 0)
	if age := time.Since(at); age >= s.options.DeletionDelay {
		return skip(SkipMarked, "marked for deletion at %s", at.UTC().Format(time.RFC3339))
	}
	return nil
}

// examine checks a block that is not served yet, and opens it. It sets times as soon as the block's times are
// known.
func (s *tenantSync) examine(ctx context.Context, id ulid.ULID, f *found, times *blockTimes) (*block, error) {
	prefix := prefixOf(s.tenant, id)
	if f.saw&sawFiles == 0 {
		if err := s.listFiles(ctx, prefix, f); err != nil {
			return nil, err
		}
	}
	switch {
	case f.saw&sawUploading != 0:
		return nil, skip(SkipUploading, "%s is there", uploadingName)
	case f.saw&sawMeta == 0:
		return nil, skip(SkipNoMeta, "there is no meta.json: an upload or a deletion is under way, or broke off")
	}
	marked, unreadable, err := s.mark(ctx, id, f)
	if err != nil {
		return nil, err
	}
	m, written, err := s.readMeta(ctx, id, prefix, times)
	if err != nil {
		return nil, err
	}
	if err := s.checkLayout(m); err != nil {
		return nil, err
	}
	var deleted Deletions
	if _, prometheus := s.layout.(prometheusLayout); prometheus && (f.saw&sawTombstones != 0 || m.Stats.NumTombstones > 0) { // other layouts have no tombstones
		if deleted, err = s.readDeletions(ctx, prefix, m); err != nil {
			return nil, err
		}
	}
	if err := checkFiles(m, f); err != nil {
		return nil, err
	}
	if err := s.checkSizes(ctx, prefix, m); err != nil {
		return nil, err
	}
	b, err := s.newBlock(prefix, m, int(f.last))
	if err != nil {
		return nil, skip(SkipCorruptMeta, "%v", err)
	}
	b.written = written
	b.deleted.Store(&deleted)
	b.marked.Store(marked)
	b.unreadableMark = unreadable
	b.noCompact.Store(f.saw&sawNoCompact != 0)
	return b, nil
}

// readMeta reads a block's meta.json, and sets times as soon as they are known. It also returns when the file was written, if the block may be
// deleted.
func (s *tenantSync) readMeta(ctx context.Context, id ulid.ULID, prefix string, times *blockTimes) (m *tsblock.Meta, written time.Time, err error) {
	name := path.Join(prefix, metaName)
	if s.mayBeDeleted() {
		a, err := s.syncer.reader.attributes(ctx, name)
		if err != nil {
			return nil, written, err
		}
		written = a.LastModified
	}
	text, err := s.syncer.reader.getConfirmed(ctx, name)
	if err != nil {
		return nil, written, err
	}
	if m, err := tsblock.ParseMeta(text); err == nil && m.ULID == id {
		*times = s.timesOf(m)
		if s.result.times.outside(*times) {
			return nil, written, s.result.times.skip(*times)
		}
	}
	m, err = parseMeta(text, id)
	return m, written, err
}

// checkLayout returns a verdict on a block that the bucket's layout does not serve.
func (s *tenantSync) checkLayout(m *tsblock.Meta) error {
	_, thanos := s.layout.(thanosLayout)
	switch {
	case !thanos && m.Thanos.Downsample.Resolution != 0:
		return skip(SkipDownsampled, "downsampled blocks are served from a bucket of layout %s only", LayoutThanos)
	case thanos && !hasThanos(m):
		return skip(SkipNoThanos, "meta.json has no thanos section: a plain Prometheus block has layout %s", LayoutPrometheus)
	}
	return nil
}

// mark returns the time at which a block was marked for deletion, 0 if it is not marked, whether the mark is
// unreadable, and a verdict if the block was marked longer than the delay ago.
func (s *tenantSync) mark(ctx context.Context, id ulid.ULID, f *found) (marked int64, unreadable bool, err error) {
	if f.saw&sawDeletionMark == 0 {
		return 0, false, nil
	}
	marked, unreadable, err = s.markedAt(ctx, id, f)
	if err == nil {
		err = s.syncer.checkMark(marked)
	}
	return marked, unreadable, err
}

func (s *tenantSync) listFiles(ctx context.Context, prefix string, f *found) error {
	before := *f
	err := s.syncer.reader.list(ctx, prefix, true, func() { *f = before }, func(name string) {
		f.file(name[min(len(prefix)+1, len(name)):])
	})
	f.saw |= sawFiles
	return err
}

// checkSizes compares the sizes in meta.json with those of the objects.
func (s *tenantSync) checkSizes(ctx context.Context, prefix string, m *tsblock.Meta) error {
	for _, file := range m.Thanos.Files {
		if file.Bytes == 0 {
			continue // size not recorded
		}
		name := slashed(file.Path)
		a, err := s.syncer.reader.attributes(ctx, path.Join(prefix, name))
		switch {
		case IsNotFound(err):
			return skip(SkipIncomplete, "%s is missing", name)
		case err != nil:
			return err
		case a.Size != file.Bytes:
			return skip(SkipIncomplete, "%s has %d bytes, of %d by meta.json", name, a.Size, file.Bytes)
		}
	}
	return nil
}

// markedAt returns the time at which a block was marked for deletion, and whether the mark is unreadable: then it is
// the time at which the mark was written, since the mark exists because the block is to be deleted.
func (s *tenantSync) markedAt(ctx context.Context, id ulid.ULID, f *found) (marked int64, unreadable bool, err error) {
	if f.deletionTime > 0 {
		return f.deletionTime, false, nil
	}
	name := path.Join(prefixOf(s.tenant, id), deletionMarkName)
	text, err := s.syncer.reader.getConfirmed(ctx, name)
	if _, mimir := s.layout.(mimirLayout); mimir && IsNotFound(err) {
		name = markerName(s.tenant, id)
		text, err = s.syncer.reader.getConfirmed(ctx, name)
	}
	if IsNotFound(err) {
		return 0, false, nil // the mark was removed
	}
	if err != nil {
		return 0, false, err
	}
	marked, err = parseDeletionMark(text)
	if err == nil {
		return marked, false, nil
	}
	at := time.Now()
	if a, err := s.syncer.reader.attributes(ctx, name); err == nil && a.LastModified.Unix() > 0 && a.LastModified.Before(at) {
		at = a.LastModified
	}
	if b := s.old.byID[id]; b == nil || !b.unreadableMark {
		s.syncer.log.Warn("deletion mark unreadable; it counts from when it was written", "object", name, "written", at, "error", err)
	}
	return at.Unix(), true, nil
}

// newBlock opens a block. It reads nothing.
func (s *tenantSync) newBlock(prefix string, m *tsblock.Meta, chunkFiles int) (*block, error) {
	b := &block{syncer: s.syncer, id: m.ULID, tenant: s.tenant, minTime: m.MinTime, maxTime: m.MaxTime, resolution: Resolution(m.Thanos.Downsample.Resolution)}
	if _, thanos := s.layout.(thanosLayout); thanos {
		b.external = externalLabels(m)
	}
	// Fields that only the sync uses would be most of the block's memory.
	m.Thanos.Files, m.Thanos.Labels = nil, nil
	data, err := tsblock.New(s.syncer.source, prefix, m, tsblock.Options{
		Cache: s.syncer.options.Cache, Pool: s.syncer.options.Pool, Entries: s.syncer.Entries(), Disk: s.syncer.options.Disk, Shared: s.syncer.options.Shared, LocalDir: s.syncer.options.DataDir, Loads: s.syncer.loadsOf(m), Log: s.syncer.log, ChunkFiles: chunkFiles,
	})
	if err != nil {
		return nil, err
	}
	b.data = data
	b.refs.Store(1)
	return b, nil
}

// retainRemoved counts the blocks that left the bucket. It keeps them for a while if other blocks could not be
// read, since those may include the blocks that they were compacted into. Those that left without a reason are named
// for that time.
func (s *tenantSync) retainRemoved(now time.Time) {
	suspect := s.unexplained()
	for id, b := range s.old.byID {
		if s.result.byID[id] != nil {
			continue
		}
		b.missingSince.CompareAndSwap(0, now.UnixNano())
		since := time.Unix(0, b.missingSince.Load())
		if s.failed.Load() > 0 && now.Sub(since) < maxRetention {
			s.result.add(b)
			s.result.skipped = slices.DeleteFunc(s.result.skipped, func(sb SkippedBlock) bool { return sb.ID == id.String() })
			continue
		}
		s.removed++
		if suspect[id] {
			s.result.suspects = append(s.result.suspects, gap{id: id, times: blockTimes{true, b.minTime, b.maxTime, b.external}, external: b.external, since: since})
		}
	}
	for _, g := range s.old.suspects {
		if s.result.byID[g.id] == nil && now.Sub(g.since) < maxRetention {
			s.result.suspects = append(s.result.suspects, g)
		}
	}
}
