package storegateway

import (
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/taredb/tare/storegateway/storepb"
	"github.com/taredb/tare/tsblock"
)

// A groupShard keeps the series of one shard of several, series that a grouping puts together in
// the same one: what Thanos calls vertical sharding. Unlike the shards of __query_shard__, these
// are known only once a series' labels are.
type groupShard struct {
	index, total uint64
	by           bool     // names count; otherwise those that are not in names
	names        []string // sorted
}

// groupShardOf reads a request's shard; nil when it asks for all series.
func groupShardOf(s *storepb.ShardInfo) (*groupShard, error) {
	if s == nil || s.GetTotalShards() < 1 {
		return nil, nil
	}
	if s.GetShardIndex() < 0 || s.GetShardIndex() >= s.GetTotalShards() {
		return nil, badRequest("shard %d of %d: they count from 0", s.GetShardIndex(), s.GetTotalShards())
	}
	names := slices.Clone(s.GetLabels())
	slices.Sort(names)
	return &groupShard{
		index: uint64(s.GetShardIndex()), total: uint64(s.GetTotalShards()),
		by: s.GetBy(), names: names,
	}, nil
}

// has reports whether a series with these labels, sorted by name, is in the shard. The hash is
// that of Thanos' queriers, which share a query out among stores: xxhash of each grouping
// label's name and value, each with the byte 0xff behind it. It is safe for concurrent use and does
// not allocate.
func (g *groupShard) has(ls []tsblock.Label) bool {
	const separator = "\xff"
	var d xxhash.Digest
	d.Reset()
	for i := range ls {
		if _, named := slices.BinarySearch(g.names, ls[i].Name); named == g.by {
			_, _ = d.WriteString(ls[i].Name)
			_, _ = d.WriteString(separator)
			_, _ = d.WriteString(ls[i].Value)
			_, _ = d.WriteString(separator)
		}
	}
	return d.Sum64()%g.total == g.index
}
