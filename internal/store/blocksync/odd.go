package blocksync

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/taredb/tare/store/tsblock"
)

// An oddEntry is an entry of a bucket that looks like a block, by its name or its meta.json, and is not one.
type oddEntry struct {
	name   string // in the bucket, without a slash at the end
	reason SkipReason
	detail string
}

// maxOdd bounds the odd entries of a listing. Further ones are foreign only.
const maxOdd = 256

// addOdd records an odd entry once.
func (l *listing) addOdd(name string, reason SkipReason, detail string) {
	if len(l.odd) < maxOdd && !slices.ContainsFunc(l.odd, func(o oddEntry) bool { return o.name == name }) {
		l.odd = append(l.odd, oddEntry{strings.Clone(name), reason, detail})
	}
}

// addStranger adds an entry of a directory of blocks that is no block, if it looks like one.
func (l *listing) addStranger(name string) {
	trimmed, isDir := strings.CutSuffix(name, "/")
	for part := range strings.SplitSeq(trimmed, "/") {
		if part == "." || part == ".." { // could lead out of a file bucket
			return
		}
	}
	base := path.Base(trimmed)
	_, canonical := parseBlockID(base)
	temporary, _, tmp := strings.Cut(base, ".tmp")
	_, err := ulid.ParseStrict(base)
	_, ofTemporary := parseBlockID(temporary)
	switch {
	case tmp && ofTemporary:
		l.addOdd(trimmed, SkipTemporary, "Prometheus creates or deletes a block there")
	case !isDir && (canonical || err == nil):
		l.addOdd(trimmed, SkipNoDirectory, "it is a link that leads nowhere or into itself, or a file")
	case isDir:
		l.addOdd(trimmed, SkipMisnamed, "")
	}
}

// skipOdd lists the odd entries as skipped blocks. Of those that are known by a meta.json, the file has their times. In a
// directory without one, it looks for blocks.
func (s *tenantSync) skipOdd(ctx context.Context, odd []oddEntry) {
	var within listing
	for _, o := range odd {
		switch b, ok := s.examineOdd(ctx, o); {
		case ok:
			s.addSkipped(b)
		case s.listsTop() && !s.root:
			s.listOdd(ctx, o, &within)
		}
	}
	for _, o := range within.odd {
		if b, ok := s.examineOdd(ctx, o); ok {
			s.addSkipped(b)
		}
	}
}

func (s *tenantSync) addSkipped(b SkippedBlock) {
	b.Tenant = s.tenant
	s.result.skipped = append(s.result.skipped, b)
}

// listsTop reports whether the layout lists the names at the top of a tenant only.
func (s *tenantSync) listsTop() bool {
	_, thanos := s.layout.(thanosLayout)
	return !thanos
}

// listOdd adds the blocks in a directory to l. Those of a directory that cannot be listed are unknown: the bucket has
// nothing that shows that there are any.
func (s *tenantSync) listOdd(ctx context.Context, o oddEntry, l *listing) {
	var names []string
	err := s.syncer.reader.listPrefix(ctx, o.name+"/", false, func() { names = names[:0] }, func(name string) {
		if dir, isDir := strings.CutSuffix(name, "/"); isDir && len(names) < maxOdd {
			if _, err := ulid.ParseStrict(path.Base(dir)); err == nil {
				names = append(names, strings.Clone(dir))
			}
		}
	})
	if err != nil {
		s.syncer.log.Warn("unknown directory not listed", "directory", o.name, "error", err)
	}
	for _, name := range names {
		l.addOdd(name, SkipMisnamed, "")
	}
}

// examineOdd returns an odd entry as a skipped block; false: it does not look like one.
func (s *tenantSync) examineOdd(ctx context.Context, o oddEntry) (SkippedBlock, bool) {
	b := SkippedBlock{ID: path.Base(o.name), Reason: o.reason, Detail: o.name + ": " + o.detail, odd: o.name}
	if o.reason != SkipMisnamed {
		return b, true
	}
	for i := range s.old.skipped { // a block's meta.json does not change
		if old := &s.old.skipped[i]; old.odd == o.name && old.times.known {
			b = *old
			b.replaced = s.result.byID[old.is] != nil
			return b, true
		}
	}
	text, err := s.syncer.reader.get(ctx, o.name+"/"+metaName, maxMeta)
	if IsNotFound(err) {
		return b, false
	}
	b.Detail = o.name + ": the name of a block's directory is its ULID in upper case"
	var m *tsblock.Meta
	if err == nil {
		m, err = tsblock.ParseMeta(text)
	}
	if err != nil {
		b.Detail += "; " + err.Error()
		return b, true
	}
	b.times, b.is = s.timesOf(m), m.ULID
	b.MinTime, b.MaxTime = m.MinTime, m.MaxTime
	b.replaced = s.result.byID[m.ULID] != nil
	b.Detail += ": to serve it, rename it to " + m.ULID.String() + ", in the place of blocks of layout " + string(cmp.Or(s.syncer.layout, LayoutAuto))
	return b, true
}
