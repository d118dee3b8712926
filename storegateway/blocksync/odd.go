package blocksync

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/taredb/tare/tsblock"
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

// addStranger classifies an entry of a directory of blocks that is no block. It returns false if the entry does not
// look like one.
func (l *listing) addStranger(name string) bool {
	trimmed, isDir := strings.CutSuffix(name, "/")
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
	default:
		return false
	}
	return true
}

// skipOdd lists the odd entries as skipped blocks. Of those that are known by a meta.json, the file has their times.
func (s *tenantSync) skipOdd(ctx context.Context, odd []oddEntry) {
	for _, o := range odd {
		if b, ok := s.examineOdd(ctx, o); ok {
			b.Tenant = s.tenant
			s.result.skipped = append(s.result.skipped, b)
		}
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
	text, err := s.syncer.reader.get(ctx, path.Join(o.name, metaName), maxMeta)
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
