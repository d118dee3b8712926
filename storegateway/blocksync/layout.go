package blocksync

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"
)

// A Layout says how blocks lie in a bucket.
type Layout string

// The layouts, by the names of --layout.
const (
	// LayoutAuto looks: directories with blocks in them make a Mimir bucket; blocks at the top
	// are a Prometheus data directory where a write-ahead log lies beside them or where they
	// have no thanos section, and otherwise a Thanos bucket.
	LayoutAuto Layout = "auto"

	LayoutPrometheus Layout = "prometheus"
	LayoutThanos     Layout = "thanos"
	LayoutMimir      Layout = "mimir"
)

// ParseLayout returns the layout of a name; "" is LayoutAuto.
func ParseLayout(s string) (Layout, error) {
	switch l := Layout(s); l {
	case "":
		return LayoutAuto, nil
	case LayoutAuto, LayoutPrometheus, LayoutThanos, LayoutMimir:
		return l, nil
	}
	return "", fmt.Errorf("layout %q is unknown: want auto, prometheus, thanos or mimir", s)
}

// Names in a bucket.
const (
	metaName         = "meta.json"
	indexName        = "index"
	chunksName       = "chunks"
	tombstonesName   = "tombstones"
	deletionMarkName = "deletion-mark.json"
	noCompactName    = "no-compact-mark.json"
	uploadingName    = "uploading-meta.json"  // Mimir: blocks that its API has not taken whole
	markersName      = "markers"              // Mimir: marks of all of a tenant's blocks
	bucketIndexName  = "bucket-index.json.gz" // Mimir: list of a tenant's blocks
	mimirClusterName = "__mimir_cluster"      // Mimir: seeds of the cluster
	tenantDeletion   = "tenant-deletion-mark.json"
)

// Where a block's name has been seen.
type seen uint8

const (
	sawMeta seen = 1 << iota
	sawIndex
	sawTombstones
	sawDeletionMark
	sawNoCompact
	sawUploading
	sawFiles // the block's objects were listed, so that what is not there is missing
)

// A found block is what listings tell of it. It is small: a bucket may have 100,000.
type found struct {
	saw      seen
	segments int32 // chunk files seen
	last     int32 // the highest number of a chunk file

	deletionTime int64 // seconds since 1970, from a Mimir bucket index; 0: not known
}

// A listing is what a tenant's part of the bucket holds.
type listing struct {
	blocks  map[ulid.ULID]*found
	foreign int    // objects and directories that are of no block and that no layout knows
	example string // one of them

	partial bool // from a bucket index: only the blocks that it names
}

func newListing() listing { return listing{blocks: make(map[ulid.ULID]*found)} }

func (l *listing) block(id ulid.ULID) *found {
	f := l.blocks[id]
	if f == nil {
		f = new(found)
		l.blocks[id] = f
	}
	return f
}

func (l *listing) stranger(name string) {
	if l.foreign++; l.example == "" {
		l.example = strings.Clone(name)
	}
}

// file notes one of a block's objects, by its name in the block's directory.
func (f *found) file(name string) {
	switch name {
	case metaName:
		f.saw |= sawMeta
	case indexName:
		f.saw |= sawIndex
	case tombstonesName:
		f.saw |= sawTombstones
	case deletionMarkName:
		f.saw |= sawDeletionMark
	case noCompactName:
		f.saw |= sawNoCompact
	case uploadingName:
		f.saw |= sawUploading
	default:
		if n, ok := segmentNumber(name); ok {
			f.segments++
			f.last = max(f.last, n)
		}
	}
}

// segmentNumber returns the number of "chunks/000001".
func segmentNumber(name string) (int32, bool) {
	digits, ok := strings.CutPrefix(name, chunksName+"/")
	if !ok || len(digits) < 6 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || n == 0 || fmt.Sprintf("%06d", n) != digits {
		return 0, false
	}
	return int32(n), true
}

// parseBlockID returns the block that an element of a name is, which is a ULID in the form
// that it is written in (ulid.ParseStrict takes lower case and overflows too).
func parseBlockID(s string) (ulid.ULID, bool) {
	id, err := ulid.ParseStrict(s)
	return id, err == nil && id.String() == s
}

// A lister lists one directory of the bucket, with retries; each attempt begins with begin.
type lister interface {
	list(ctx context.Context, dir string, recursive bool, begin func(), visit func(name string)) error
}

// An arrangement is one way to lay out blocks.
type arrangement interface {
	// tenants returns the tenants, and what lies among them that is none; those of a layout without
	// tenants are the one "".
	tenants(context.Context) (names []string, others listing, err error)

	// list returns the blocks of a tenant.
	list(ctx context.Context, tenant string) (listing, error)
}

// oneTenant are the arrangements that have one tenant, of no name.
type oneTenant struct{}

func (oneTenant) tenants(context.Context) ([]string, listing, error) {
	return []string{""}, listing{}, nil
}

// prefixOf returns the name of a block's directory.
func prefixOf(tenant string, id ulid.ULID) string { return path.Join(tenant, id.String()) }
