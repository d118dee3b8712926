package blocksync

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// mimirLayout lists a bucket of Grafana Mimir: one directory per tenant with blocks in it,
// markers/<ULID>-deletion-mark.json, and usually a bucket-index.json.gz, which the compactor writes. A fresh
// bucket index saves listing the tenant.
type mimirLayout struct {
	bucket  lister
	read    func(ctx context.Context, name string, limit int64) ([]byte, error)
	allowed []string // tenants to serve; empty: all
	stale   time.Duration
}

var _ arrangement = mimirLayout{}

// Bounds of a bucket index.
const (
	// maxBucketIndex is in bytes, compressed and uncompressed: it suffices for maxIndexBlocks of some 250 bytes each.
	maxBucketIndex = 256 << 20

	maxIndexBlocks = 1_000_000 // and deletion marks
)

func (m mimirLayout) tenants(ctx context.Context) (tenants []string, others listing, err error) {
	if len(m.allowed) > 0 {
		return m.allowed, listing{}, nil
	}
	begin := func() { tenants, others = tenants[:0], listing{} }
	err = m.bucket.list(ctx, "", false, begin, func(name string) {
		dir, isDir := strings.CutSuffix(name, "/")
		switch {
		case dir == mimirClusterName:
		case isDir && ValidTenant(dir):
			tenants = append(tenants, strings.Clone(dir))
		default:
			others.addStranger(name)
			others.addForeign(name)
		}
	})
	slices.Sort(tenants)
	return tenants, others, err
}

// MaxTenant bounds the length of a tenant's name in bytes.
const MaxTenant = 150

// ValidTenant reports whether a directory may belong to a tenant: its name follows Mimir's rules for tenants
// and is not that of a block. Names that it rejects never become part of a path in the bucket or in the data
// directory.
func ValidTenant(name string) bool {
	if name == "" || name == "." || name == ".." || len(name) > MaxTenant {
		return false
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!-_.*'()", c) >= 0:
		default:
			return false
		}
	}
	_, block := parseBlockID(name)
	return !block
}

func (m mimirLayout) list(ctx context.Context, tenant string) (listing, error) {
	if l, ok, err := m.fromIndex(ctx, tenant); err != nil || ok {
		return l, err
	}
	var l listing
	entries := 0
	err := m.bucket.list(ctx, tenant, false, func() { l, entries = newListing(), 0 }, func(name string) {
		entries++
		rest := strings.TrimPrefix(name, tenant+"/")
		dir, isDir := strings.CutSuffix(rest, "/")
		id, ok := parseBlockID(dir)
		switch {
		case isDir && ok:
			l.block(id)
		case !isMimirEntry(dir):
			l.addStranger(name)
			l.addForeign(name)
		}
	})
	if err != nil {
		return listing{}, err
	}
	l.absent = entries == 0
	marks := make(map[ulid.ULID]seen)
	err = m.bucket.list(ctx, path.Join(tenant, markersName), false, func() { clear(marks) }, func(name string) {
		id, mark, ok := parseMarker(path.Base(name))
		if ok {
			marks[id] |= mark
		}
	})
	for id, mark := range marks {
		if f := l.blocks[id]; f != nil {
			f.saw |= mark
		}
	}
	return l, err
}

// isMimirEntry reports whether Mimir creates entries of that name beside a tenant's blocks.
func isMimirEntry(name string) bool {
	return name == markersName || name == bucketIndexName || name == "bucket-index.json" || name == tenantDeletion || name == "debug"
}

// parseMarker parses "01ABC…-deletion-mark.json".
func parseMarker(name string) (ulid.ULID, seen, bool) {
	if len(name) <= ulid.EncodedSize || name[ulid.EncodedSize] != '-' {
		return ulid.ULID{}, 0, false
	}
	id, ok := parseBlockID(name[:ulid.EncodedSize])
	switch name[ulid.EncodedSize+1:] {
	case deletionMarkName:
		return id, sawDeletionMark, ok
	case noCompactName:
		return id, sawNoCompact, ok
	}
	return ulid.ULID{}, 0, false
}

// markerName returns the name of a block's deletion mark.
func markerName(tenant string, id ulid.ULID) string {
	return path.Join(tenant, markersName, id.String()+"-"+deletionMarkName)
}

// A bucketIndex is the part of a bucket-index.json that is used, in version 1 or 2 (version 2 adds compactor_shard_id).
type bucketIndex struct {
	Version   int
	Blocks    []ulid.ULID
	Marks     []indexMark
	UpdatedAt int64 // seconds since 1970
}

// An indexMark is a deletion mark in a bucket index.
type indexMark struct {
	ID           ulid.ULID
	DeletionTime int64 // seconds since 1970
}

// fromIndex lists a tenant by its bucket index. It returns false without an error if the index is missing,
// old or unreadable: the caller then lists the tenant.
func (m mimirLayout) fromIndex(ctx context.Context, tenant string) (listing, bool, error) {
	packed, err := m.read(ctx, path.Join(tenant, bucketIndexName), maxBucketIndex)
	if err != nil {
		if IsNotFound(err) || errors.Is(err, errTooLong) {
			err = nil
		}
		return listing{}, false, err
	}
	index, err := parseBucketIndex(packed)
	if err != nil || time.Since(time.Unix(index.UpdatedAt, 0)) > m.stale {
		return listing{}, false, nil
	}
	l := newListing()
	l.partial = true
	for _, id := range index.Blocks {
		l.block(id)
	}
	for _, mark := range index.Marks {
		if f := l.blocks[mark.ID]; f != nil {
			f.saw |= sawDeletionMark
			f.deletionTime = mark.DeletionTime
		}
	}
	return l, true, nil
}
