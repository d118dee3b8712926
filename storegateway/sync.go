package storegateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/taredb/tare/promapi"
	"github.com/taredb/tare/tsblock"
)

// maxHold is how long a block that has gone is served while other blocks cannot be read: one of
// them may be what it was compacted into.
const maxHold = 10 * time.Minute

// Sync compares the blocks that are served with the bucket, once. When the bucket fails, what
// was served before goes on being served, and the error says what failed; what could be read of
// new blocks is served. Run calls it; tests and tools may.
func (g *Gateway) Sync(ctx context.Context) error {
	g.syncing.Lock()
	defer g.syncing.Unlock()
	return g.syncLocked(ctx)
}

// syncSince returns when a sync that began after the call has ended. Requests that meet deleted blocks at the same time
// share one.
func (g *Gateway) syncSince(ctx context.Context) error {
	begun := g.syncsBegun.Load()
	g.syncing.Lock()
	defer g.syncing.Unlock()
	if g.syncsBegun.Load() > begun && g.synced {
		return nil
	}
	return g.syncLocked(ctx)
}

// afterDeletion returns how a request is repeated that met a block which is not in the bucket any more, once the blocks
// that are in the bucket now are known. The request cannot meet a block that is no longer served a second time. Of
// a block that is still served an object is missing for good, or its deletion has just begun.
func (g *Gateway) afterDeletion(ctx context.Context, err error) promapi.Repeat {
	if !isGone(err) || g.syncSince(ctx) != nil {
		return promapi.NoRepeat
	}
	id, ok := goneBlock(err)
	if !ok || g.current().has(id) {
		return promapi.RepeatLarger
	}
	return promapi.RepeatSame
}

// syncLocked is Sync. The caller holds syncing.
func (g *Gateway) syncLocked(ctx context.Context) (err error) {
	g.syncsBegun.Add(1)
	defer func() { g.synced = err == nil }()
	start := time.Now()
	set, changes, err := g.look(ctx)
	if ctx.Err() != nil {
		set.discard(g.set)
		return context.Cause(ctx)
	}
	if set != nil {
		g.exchange(set)
		g.finishSync(ctx, set, err)
	}
	g.noteSync(start, changes, err)
	return err
}

// finishSync does what follows a new set.
func (g *Gateway) finishSync(ctx context.Context, set *blockSet, err error) {
	if g.options.EagerHeaders {
		g.loadEagerly(ctx, set)
	}
	if err != nil || g.ready.Load() || ctx.Err() != nil {
		return
	}
	if err := g.cleanLocal(set); err != nil {
		g.log.Warn("local files of deleted blocks not removed", "error", err)
	}
	g.ready.Store(true)
}

// loadEagerly loads the headers of all blocks. One that cannot be loaded now is again when a
// query needs it, and fails that one.
func (g *Gateway) loadEagerly(ctx context.Context, set *blockSet) {
	_ = forEach(ctx, g.options.HeaderLoads, slices.Collect(set.all()), func(ctx context.Context, b *block) error {
		if err := g.loadHeader(ctx, b); err != nil && ctx.Err() == nil {
			g.log.Warn("an index header was not loaded ahead", "block", b.id, "error", err)
		}
		return nil
	})
}

// syncChanges counts what a sync has done.
type syncChanges struct{ added, removed int }

// look makes the set of what is in the bucket, of the blocks served now and of new ones. It
// returns a nil set when there is nothing to say about any tenant.
func (g *Gateway) look(ctx context.Context) (*blockSet, syncChanges, error) {
	if dir := g.options.LocalBucket; dir != "" { // objstore takes a missing directory for an empty one
		if _, err := os.Stat(dir); err != nil {
			return nil, syncChanges{}, fmt.Errorf("list the bucket: %w", err)
		}
	}
	layout, err := g.arrangement(ctx)
	if err != nil {
		return nil, syncChanges{}, err
	}
	if layout == nil { // an empty bucket, as far as blocks go
		return newBlockSet(), syncChanges{removed: g.set.size()}, nil
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
	_ = forEach(ctx, g.options.Concurrency, tenants, func(ctx context.Context, tenant string) error {
		s := tenantSync{gateway: g, layout: layout, tenant: tenant, old: g.set.tenants[tenant]}
		t, err := s.run(ctx)
		mu.Lock()
		defer mu.Unlock()
		if t != nil {
			set.tenants[tenant] = t
		}
		changes.added += s.added
		changes.removed += s.removed
		if err != nil && len(errs) < maxSyncErrors {
			errs = append(errs, err)
		}
		return nil
	})
	for tenant, t := range g.set.tenants {
		if set.tenants[tenant] == nil {
			changes.removed += len(t.blocks)
		}
	}
	if err := g.suspectEmpty(set); err != nil && len(errs) == 0 {
		return nil, syncChanges{}, err
	}
	return set, changes, errors.Join(errs...)
}

// suspectEmpty does not believe at once that a bucket with blocks has nothing in it any more: that is
// what a directory looks like from which a disk was unmounted.
func (g *Gateway) suspectEmpty(set *blockSet) error {
	if g.set.size() == 0 || !set.empty() {
		g.emptySince = time.Time{}
		return nil
	}
	if g.emptySince.IsZero() {
		g.emptySince = time.Now()
	}
	if time.Since(g.emptySince) >= maxHold {
		return nil
	}
	return fmt.Errorf("nothing is left in the bucket, of %d blocks: believed if it stays so for %s", g.set.size(), maxHold)
}

// empty says whether nothing at all was found.
func (s *blockSet) empty() bool {
	for _, t := range s.tenants {
		if len(t.blocks)+len(t.skipped)+t.others > 0 {
			return false
		}
	}
	return true
}

// maxSyncErrors bounds what a sync of many tenants has to say.
const maxSyncErrors = 8

// exchange makes a set the one that is served.
func (g *Gateway) exchange(set *blockSet) {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		set.discard(nil)
		return
	}
	old := g.set
	g.set = set
	g.mu.Unlock()
	for b := range old.all() {
		if t := set.tenants[b.tenant]; t == nil || t.byID[b.id] != b {
			b.dropped.Store(true)
			b.release()
		}
	}
}

// discard closes the blocks of a set that is not to be served, but for those of another.
func (s *blockSet) discard(but *blockSet) {
	if s == nil {
		return
	}
	for b := range s.all() {
		if but != nil {
			if t := but.tenants[b.tenant]; t != nil && t.byID[b.id] == b {
				continue
			}
		}
		b.release()
	}
}

// A tenantSync looks at one tenant once.
type tenantSync struct {
	gateway *Gateway
	layout  arrangement
	tenant  string
	old     *tenantBlocks // nil: the tenant is new

	added, removed int

	mu     sync.Mutex
	result *tenantBlocks
	failed atomic.Int64 // blocks that the bucket failed to tell about
	first  error        // of them, under mu
}

// run returns the tenant's blocks. When the tenant could not be listed these are the old ones,
// nil if there are none.
func (s *tenantSync) run(ctx context.Context) (*tenantBlocks, error) {
	if s.old == nil {
		s.old = newTenantBlocks()
	}
	l, err := s.layout.list(ctx, s.tenant)
	if err != nil {
		if len(s.old.blocks) == 0 {
			return nil, err
		}
		kept := *s.old
		kept.err = err
		return &kept, err
	}
	s.result = newTenantBlocks()
	s.result.foreign, s.result.stranger = l.foreign, l.example
	var owned, others []ulid.ULID
	for id := range l.blocks {
		if s.gateway.options.Shard.Owns(id) {
			owned = append(owned, id)
		} else {
			others = append(others, id)
		}
	}
	s.result.others = len(others)
	err = forEach(ctx, s.gateway.options.Concurrency, owned, func(ctx context.Context, id ulid.ULID) error {
		s.one(ctx, id, l.blocks[id])
		return context.Cause(ctx)
	})
	if err == nil && !l.partial {
		err = s.confirmUnlisted(ctx, l)
	}
	if err == nil {
		err = forEach(ctx, s.gateway.options.Concurrency, others, func(ctx context.Context, id ulid.ULID) error {
			s.other(ctx, id, l.blocks[id])
			return context.Cause(ctx)
		})
	}
	if err != nil { // the sync has been ended: Sync discards the rest
		return s.result, err
	}
	s.keepGone(time.Now())
	s.result.sort()
	s.result.noteGaps()
	if n := s.failed.Load(); n > 0 {
		s.result.err = fmt.Errorf("%d blocks are unreadable, one of them: %w", n, s.first)
	}
	return s.result, s.result.err
}

// one decides about a block.
func (s *tenantSync) one(ctx context.Context, id ulid.ULID, f *found) {
	b := s.old.byID[id]
	var err error
	var times blockTimes
	if b != nil {
		times = blockTimes{true, b.minTime, b.maxTime, b.external}
		err = s.again(ctx, b, f)
	} else {
		b, err = s.examine(ctx, id, f, &times)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		if s.old.byID[id] == nil {
			s.added++
		}
		b.gone.Store(0)
		s.result.add(b)
		return
	}
	v := verdictOf(err)
	switch {
	case v != nil:
	case isGone(err): // between the listing and now
		v = &verdict{SkipNoMeta, err.Error()}
	case accessDenied(s.gateway.reader.bucket, err):
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

// again looks at a block that is served.
func (s *tenantSync) again(ctx context.Context, b *block, f *found) error {
	if f.saw&sawFiles != 0 && f.saw&sawMeta == 0 {
		return s.unlisted(ctx, b)
	}
	if err := s.checkDeleted(ctx, b); err != nil {
		return err
	}
	b.noCompact.Store(f.saw&sawNoCompact != 0)
	if f.saw&sawDeletionMark == 0 {
		b.marked.Store(0)
		return nil
	}
	if b.marked.Load() == 0 {
		marked, err := s.markedAt(ctx, b.id, f)
		if err != nil {
			return nil // served as before; the mark is read again at the next sync
		}
		b.marked.Store(marked)
	}
	return s.gateway.checkMark(b.marked.Load())
}

// checkMark decides about a block that was marked for deletion at that time; 0 is not.
func (g *Gateway) checkMark(marked int64) error {
	if marked == 0 {
		return nil
	}
	at := time.Unix(marked, 0)
	if age := time.Since(at); age >= g.options.DeletionDelay {
		return skip(SkipMarked, "marked for deletion at %s", at.UTC().Format(time.RFC3339))
	}
	return nil
}

// examine decides about a block that is not served, and opens it.
//
// As soon as the block's times are known they are put into times.
func (s *tenantSync) examine(ctx context.Context, id ulid.ULID, f *found, times *blockTimes) (*block, error) {
	g := s.gateway
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
	var marked int64
	if f.saw&sawDeletionMark != 0 {
		var err error
		if marked, err = s.markedAt(ctx, id, f); err != nil {
			return nil, err
		}
		if err := g.checkMark(marked); err != nil {
			return nil, err
		}
	}
	name := path.Join(prefix, metaName)
	var written time.Time
	if s.mayBeDeleted() {
		a, err := g.reader.attributes(ctx, name)
		if err != nil {
			return nil, err
		}
		written = a.LastModified
	}
	text, err := g.reader.getConfirmed(ctx, name, maxMeta)
	if err != nil {
		return nil, err
	}
	if m, err := tsblock.ParseMeta(text); err == nil && m.ULID == id {
		*times = s.timesOf(m)
	}
	m, err := parseMeta(text, id)
	if err != nil {
		return nil, err
	}
	var deleted deletions
	if _, prometheus := s.layout.(prometheusLayout); prometheus { // others upload no tombstones
		if f.saw&sawTombstones != 0 || m.Stats.NumTombstones > 0 {
			deleted, err = s.readDeletions(ctx, prefix, m)
		}
		if err != nil {
			return nil, err
		}
	}
	if _, thanos := s.layout.(thanosLayout); thanos && !hasThanos(m) {
		return nil, skip(SkipNoThanos, "meta.json has no thanos section: a plain Prometheus block has layout %s", LayoutPrometheus)
	}
	if err := checkFiles(m, f); err != nil {
		return nil, err
	}
	if err := s.checkSizes(ctx, prefix, m); err != nil {
		return nil, err
	}
	b, err := s.newBlock(prefix, m)
	if err != nil {
		return nil, skip(SkipCorruptMeta, "%v", err)
	}
	b.written = written
	b.deleted.Store(&deleted)
	b.marked.Store(marked)
	b.noCompact.Store(f.saw&sawNoCompact != 0)
	return b, nil
}

func (s *tenantSync) listFiles(ctx context.Context, prefix string, f *found) error {
	before := *f
	err := s.gateway.reader.list(ctx, prefix, true, func() { *f = before }, func(name string) {
		f.file(name[min(len(prefix)+1, len(name)):])
	})
	f.saw |= sawFiles
	return err
}

// checkSizes compares the sizes that meta.json tells with those of the objects.
func (s *tenantSync) checkSizes(ctx context.Context, prefix string, m *tsblock.Meta) error {
	for _, file := range m.Thanos.Files {
		if file.Bytes == 0 {
			continue // not told
		}
		name := slashed(file.Path)
		a, err := s.gateway.reader.attributes(ctx, path.Join(prefix, name))
		switch {
		case isGone(err):
			return skip(SkipIncomplete, "%s is missing", name)
		case err != nil:
			return err
		case a.Size != file.Bytes:
			return skip(SkipIncomplete, "%s has %d bytes, of %d by meta.json", name, a.Size, file.Bytes)
		}
	}
	return nil
}

// markedAt returns when a block was marked for deletion. A mark that cannot be understood counts
// from now: whoever put it there wants the block gone.
func (s *tenantSync) markedAt(ctx context.Context, id ulid.ULID, f *found) (int64, error) {
	if f.deletionTime != 0 {
		return f.deletionTime, nil
	}
	name := path.Join(prefixOf(s.tenant, id), deletionMarkName)
	text, err := s.gateway.reader.getConfirmed(ctx, name, maxMeta)
	if _, mimir := s.layout.(mimirLayout); mimir && isGone(err) {
		text, err = s.gateway.reader.getConfirmed(ctx, markerName(s.tenant, id), maxMeta)
	}
	if isGone(err) {
		return 0, nil // the mark has been taken back
	}
	if err != nil {
		return 0, err
	}
	marked, err := parseDeletionMark(text)
	if err != nil {
		s.gateway.log.Warn("a block's deletion mark counts from now", "block", id, "error", err)
		return time.Now().Unix(), nil
	}
	return marked, nil
}

// newBlock opens a block, which reads nothing.
func (s *tenantSync) newBlock(prefix string, m *tsblock.Meta) (*block, error) {
	g := s.gateway
	b := &block{gateway: g, id: m.ULID, tenant: s.tenant, minTime: m.MinTime, maxTime: m.MaxTime}
	if _, thanos := s.layout.(thanosLayout); thanos {
		b.external = externalLabels(m)
	}
	// What is only of use when the block is found would be most of what it takes in memory.
	m.Thanos.Files, m.Thanos.Labels = nil, nil
	m.Compaction.Sources, m.Compaction.Parents = nil, nil
	data, err := tsblock.New(g.source, prefix, m, tsblock.Options{
		Cache: g.cache, Pool: g.pool, Entries: g.entries, LocalDir: g.options.DataDir, Loads: g.headerLoads, Log: g.log,
	})
	if err != nil {
		return nil, err
	}
	b.data = data
	b.refs.Store(1)
	return b, nil
}

// keepGone counts the blocks that go, or keeps them for a while when others could not be looked
// at, among which may be what they were compacted into.
func (s *tenantSync) keepGone(now time.Time) {
	for id, b := range s.old.byID {
		if s.result.byID[id] != nil {
			continue
		}
		b.gone.CompareAndSwap(0, now.UnixNano())
		if s.failed.Load() == 0 || now.Sub(time.Unix(0, b.gone.Load())) >= maxHold {
			s.removed++
			continue
		}
		s.result.add(b)
		s.result.skipped = slices.DeleteFunc(s.result.skipped, func(sb SkippedBlock) bool { return sb.ID == id.String() })
	}
}

// arrangement returns how the bucket is laid out; nil when LayoutAuto sees no block yet.
func (g *Gateway) arrangement(ctx context.Context) (arrangement, error) {
	if g.layout == LayoutAuto {
		found, err := g.detect(ctx)
		if err != nil || found == LayoutAuto {
			return nil, err
		}
		g.layout = found
		g.log.Info("bucket layout found", "layout", found)
	}
	switch g.layout {
	case LayoutPrometheus:
		return prometheusLayout{bucket: g.reader}, nil
	case LayoutThanos:
		return thanosLayout{bucket: g.reader}, nil
	}
	return mimirLayout{bucket: g.reader, read: g.reader.get, allowed: g.options.Tenants, stale: g.options.IndexMaxAge}, nil
}

// maxDetect is how many directories are looked into to find out the layout.
const maxDetect = 64

// detect finds out the layout; LayoutAuto when nothing tells.
func (g *Gateway) detect(ctx context.Context) (Layout, error) {
	blocks, others := make(map[ulid.ULID]bool), make(map[string]bool)
	begin := func() { clear(blocks); clear(others) }
	err := g.reader.list(ctx, "", false, begin, func(name string) {
		dir := path.Base(name)
		if id, ok := parseBlockID(dir); ok {
			blocks[id] = true
		} else if len(others) < maxDetect || prometheusOwn(dir) {
			others[dir] = true
		}
	})
	if err != nil {
		return LayoutAuto, err
	}
	if others["wal"] || others["chunks_head"] {
		return LayoutPrometheus, nil
	}
	for i, id := range slices.SortedFunc(maps.Keys(blocks), ulid.ULID.Compare) {
		text, err := g.reader.getConfirmed(ctx, path.Join(id.String(), metaName), maxMeta)
		switch {
		case err != nil && (!isGone(err) || i == maxDetect):
			return LayoutAuto, err
		case err != nil:
			continue // not there yet, or no more
		}
		if m, err := tsblock.ParseMeta(text); err == nil {
			if hasThanos(m) {
				return LayoutThanos, nil
			}
			return LayoutPrometheus, nil
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(others)) {
		mimir := false
		err := g.reader.list(ctx, dir, false, func() { mimir = false }, func(name string) {
			base := path.Base(name)
			_, block := parseBlockID(base)
			mimir = mimir || block || base == bucketIndexName
		})
		if err != nil || mimir {
			return LayoutMimir, err
		}
	}
	return LayoutAuto, nil
}
