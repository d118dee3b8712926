package blocksync

import (
	"context"
	"strings"

	"github.com/oklog/ulid/v2"
)

// prometheusLayout lists the data directory of a Prometheus server, or a copy of it. It considers only
// directories named by a ULID: never wal/, wbl/, chunks_head/ or a block under construction or deletion
// (01ABC….tmp-for-creation, 01ABC….tmp-for-deletion).
type prometheusLayout struct {
	oneTenant
	bucket lister
}

var _ arrangement = prometheusLayout{}

func (p prometheusLayout) list(ctx context.Context, _ string) (listing, error) {
	var l listing
	err := p.bucket.list(ctx, "", false, func() { l = newListing() }, func(name string) {
		dir, isDir := strings.CutSuffix(name, "/")
		id, ok := parseBlockID(dir)
		switch {
		case isDir && ok:
			l.block(id)
		case !isPrometheusEntry(dir):
			l.addStranger(name)
			l.addForeign(name)
		case isDir && strings.Contains(dir, ".tmp"):
			if _, block := parseBlockID(dir[:min(len(dir), ulid.EncodedSize)]); block {
				l.addStranger(name)
			}
		}
	})
	return l, err
}

// isPrometheusEntry reports whether Prometheus, or the Thanos sidecar, creates entries of that name beside the
// blocks.
func isPrometheusEntry(name string) bool {
	switch name {
	case "wal", "wbl", "chunks_head", "lock", "queries.active", "chunk_snapshot.tmp", "thanos", "thanos.shipper.json":
		return true
	}
	base, suffix, tmp := strings.Cut(name, ".tmp")
	if tmp && (suffix == "" || strings.HasPrefix(suffix, "-for-")) {
		_, block := parseBlockID(base)
		return block || isPrometheusEntry(base) || strings.HasPrefix(base, "chunk_snapshot.") || strings.HasPrefix(base, "checkpoint.")
	}
	return strings.HasPrefix(name, "chunk_snapshot.")
}
