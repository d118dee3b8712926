package blocksync

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"
)

// A Layout is the arrangement of blocks in a bucket.
type Layout string

// Layouts, by their names in --layout.
const (
	// LayoutAuto detects the layout: directories that contain blocks imply a Mimir bucket; blocks at the top
	// imply a Prometheus data directory if a write-ahead log lies beside them or they have no thanos section,
	// otherwise a Thanos bucket.
	LayoutAuto Layout = "auto"

	LayoutPrometheus Layout = "prometheus"
	LayoutThanos     Layout = "thanos"
	LayoutMimir      Layout = "mimir"
)

// ParseLayout returns the layout with the given name; "" is LayoutAuto.
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
	uploadingName    = "uploading-meta.json"  // Mimir: blocks whose upload through its API is not complete
	markersName      = "markers"              // Mimir: marks of all blocks of a tenant
	bucketIndexName  = "bucket-index.json.gz" // Mimir: list of a tenant's blocks
	mimirClusterName = "__mimir_cluster"      // Mimir: seeds of the cluster
	tenantDeletion   = "tenant-deletion-mark.json"
)

// A seen is a set of the objects of a block that were listed.
type seen uint8

const (
	sawMeta seen = 1 << iota
	sawIndex
	sawTombstones
	sawDeletionMark
	sawNoCompact
	sawUploading
	sawFiles // all objects of the block were listed: an object that was not seen is missing
)

// A found describes a block by its listed names. It is small because a bucket may have 100,000 blocks.
type found struct {
	saw      seen
	segments int32 // chunk files seen
	last     int32 // highest number of a chunk file

	deletionTime int64 // seconds since 1970, from a Mimir bucket index; 0: unknown
}

// A listing is the content of a tenant's part of the bucket.
type listing struct {
	blocks  map[ulid.ULID]*found
	foreign int    // objects and directories that belong to no block and to no known layout
	example string // one of them

	odd []oddEntry // of them, those that look like a block

	absent  bool // the bucket has nothing of the tenant
	partial bool // from a bucket index: contains only the blocks that the index lists
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

func (l *listing) addForeign(name string) {
	if l.foreign++; l.example == "" {
		l.example = strings.Clone(name)
	}
}

// file records one of a block's objects, by its name in the block's directory.
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

// parseBlockID parses a path element that is a ULID in canonical form (ulid.ParseStrict also accepts lower
// case and overflows).
func parseBlockID(s string) (ulid.ULID, bool) {
	id, err := ulid.ParseStrict(s)
	return id, err == nil && id.String() == s
}

// A lister lists a directory of the bucket, with retries. Each attempt starts with a call of begin.
type lister interface {
	list(ctx context.Context, dir string, recursive bool, begin func(), visit func(name string)) error
}

// An arrangement lists the tenants and blocks of one layout.
type arrangement interface {
	// tenants returns the tenants, and the other entries found beside them. A layout without tenants returns
	// the single tenant "".
	tenants(context.Context) (names []string, others listing, err error)

	// list returns the blocks of a tenant.
	list(ctx context.Context, tenant string) (listing, error)
}

// oneTenant is embedded in arrangements that have one tenant, with an empty name.
type oneTenant struct{}

func (oneTenant) tenants(context.Context) ([]string, listing, error) {
	return []string{""}, listing{}, nil
}

// prefixOf returns the name of a block's directory.
func prefixOf(tenant string, id ulid.ULID) string { return path.Join(tenant, id.String()) }
