package storeapi

import (
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/prometheus/model/labels"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/taredb/tare/storegateway/blocksync"
	"github.com/taredb/tare/storegateway/storepb"
	"github.com/taredb/tare/tsblock"
)

// maxMatchers bounds what one request may make us compile and compare.
const maxMatchers = 1024

// matchersOf reads the matchers of a request.
func matchersOf(ms []*storepb.LabelMatcher) ([]*labels.Matcher, error) {
	if len(ms) > maxMatchers {
		return nil, badRequest("the request has %d matchers, at most %d are allowed", len(ms), maxMatchers)
	}
	out := make([]*labels.Matcher, 0, len(ms))
	for _, m := range ms {
		var typ labels.MatchType
		switch m.GetType() {
		case storepb.LabelMatcher_EQ:
			typ = labels.MatchEqual
		case storepb.LabelMatcher_NEQ:
			typ = labels.MatchNotEqual
		case storepb.LabelMatcher_RE:
			typ = labels.MatchRegexp
		case storepb.LabelMatcher_NRE:
			typ = labels.MatchNotRegexp
		default:
			return nil, badRequest("matcher on %q has the unknown type %d", m.GetName(), m.GetType())
		}
		matcher, err := labels.NewMatcher(typ, m.GetName(), m.GetValue())
		if err != nil {
			return nil, badRequest("matcher on %q: %v", m.GetName(), err)
		}
		out = append(out, matcher)
	}
	return out, nil
}

// matchers reads what a request asks for: the matchers of its series and, of its hints, those of
// its blocks. hints is the empty message that the hints have to be.
func (c *call) matchers(ms []*storepb.LabelMatcher, in *anypb.Any, hints vtMessage, name string, blockMatchers func() []*storepb.LabelMatcher) (series, blocks []*labels.Matcher, err error) {
	series, err = matchersOf(ms)
	if err != nil {
		return nil, nil, err
	}
	c.entry.SetMatchers(series)
	if in == nil || in.GetTypeUrl() == "" && len(in.GetValue()) == 0 {
		return series, nil, nil
	}
	if got := string(in.MessageName()); got != name {
		return nil, nil, badRequest("hints are a %q, want a %s", in.GetTypeUrl(), name)
	}
	if err := hints.UnmarshalVT(in.GetValue()); err != nil {
		return nil, nil, badRequest("hints: %v", err)
	}
	wanted, err := matchersOf(blockMatchers())
	if err != nil || len(wanted) == 0 {
		return series, nil, err
	}
	return series, c.api.blockMatchers(c.entry.Tenant, wanted), nil
}

// thanosBlockID is the label by which Thanos' hints name a block; the others are its external
// labels.
const thanosBlockID = "__block_id"

// blockMatchers turns matchers of blocks' labels into one of their ids.
func (a *API) blockMatchers(tenant string, ms []*labels.Matcher) []*labels.Matcher {
	var ids []string
	for _, b := range a.gateway.Blocks() {
		if b.Tenant != "" && b.Tenant != tenant {
			continue
		}
		if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !matchesBlock(m, &b) }) {
			ids = append(ids, b.ID)
		}
	}
	// ULIDs have no character that a regular expression knows. None at all matches no block.
	return []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, blocksync.BlockIDLabel, strings.Join(ids, "|"))}
}

func matchesBlock(m *labels.Matcher, b *blocksync.BlockInfo) bool {
	if m.Name == thanosBlockID || m.Name == blocksync.BlockIDLabel {
		return m.Matches(b.ID)
	}
	return m.Matches(b.Labels[m.Name])
}

// anyOf wraps a message as gRPC's own Any does.
func anyOf(m vtMessage, name string) *anypb.Any {
	b := make([]byte, m.SizeVT())
	if _, err := m.MarshalToSizedBufferVT(b); err != nil {
		panic("BUG: storeapi: marshal " + name + ": " + err.Error()) // our own, with room
	}
	return &anypb.Any{TypeUrl: "type.googleapis.com/" + name, Value: b}
}

// The names of what goes in the fields named hints.
const (
	seriesRequestHints  = "hintspb.SeriesRequestHints"
	seriesResponseHints = "hintspb.SeriesResponseHints"
	namesRequestHints   = "hintspb.LabelNamesRequestHints"
	namesResponseHints  = "hintspb.LabelNamesResponseHints"
	valuesRequestHints  = "hintspb.LabelValuesRequestHints"
	valuesResponseHints = "hintspb.LabelValuesResponseHints"
)

// A groupShard keeps the series of one shard of several, series that a grouping puts together in
// the same one: vertical sharding in Thanos' terms. Unlike the shards of __query_shard__, these
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
