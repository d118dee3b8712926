package storeapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/prometheus/model/labels"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/store/promapi"
	"github.com/taredb/tare/store/tsblock"
)

// maxMatchers bounds the matchers that one request makes the server compile and compare.
const maxMatchers = 1024

// matchersOf converts the matchers of a request.
func matchersOf(ctx context.Context, of *promapi.Matchers, ms []*storepb.LabelMatcher) ([]*labels.Matcher, error) {
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
		matcher, err := of.New(typ, m.GetName(), m.GetValue())
		switch {
		case errors.Is(err, promapi.ErrTooMany):
			return nil, status.Error(codes.ResourceExhausted, err.Error())
		case err != nil && ctx.Err() != nil:
			return nil, fmt.Errorf("matcher on %q: %w", m.GetName(), ctx.Err())
		case err != nil:
			return nil, badRequest("matcher on %q: %v", m.GetName(), err)
		}
		out = append(out, matcher)
	}
	return out, nil
}

// matchers converts the matchers of a request: those of its series and, from its hints, those of its blocks.
// hints is an empty message of the type that the hints must have.
func (c *call) matchers(ctx context.Context, ms []*storepb.LabelMatcher, in *anypb.Any, hints vtMessage, name string, blockMatchers func() []*storepb.LabelMatcher) (series, blocks []*labels.Matcher, err error) {
	c.made = c.api.regexps.Matchers(ctx)
	series, err = matchersOf(ctx, c.made, ms)
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
	if err := boundFields(in.GetValue(), nil); err != nil {
		return nil, nil, badRequest("hints: %v", err)
	}
	if err := hints.UnmarshalVT(in.GetValue()); err != nil {
		return nil, nil, badRequest("hints: %v", err)
	}
	wanted, err := matchersOf(ctx, c.made, blockMatchers())
	if err != nil || len(wanted) == 0 {
		return series, nil, err
	}
	return series, c.api.blockMatchers(c.entry.Tenant, wanted), nil
}

// thanosBlockID is the label that stands for a block's id in Thanos' hints; other labels are external labels.
const thanosBlockID = "__block_id"

// blockMatchers converts matchers of blocks' labels to a matcher of their ids.
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
	// ULIDs contain no character that is special in regular expressions. An empty expression matches no
	// block.
	return []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, blocksync.BlockIDLabel, strings.Join(ids, "|"))}
}

func matchesBlock(m *labels.Matcher, b *blocksync.BlockInfo) bool {
	if m.Name == thanosBlockID || m.Name == blocksync.BlockIDLabel {
		return m.Matches(b.ID)
	}
	return m.Matches(b.Labels[m.Name])
}

// anyOf wraps a message like anypb.New.
func anyOf(m vtMessage, name string) *anypb.Any {
	b := make([]byte, m.SizeVT())
	if _, err := m.MarshalToSizedBufferVT(b); err != nil {
		panic("BUG: storeapi: marshal " + name + ": " + err.Error()) // the buffer has the size of the message
	}
	return &anypb.Any{TypeUrl: "type.googleapis.com/" + name, Value: b}
}

// Message names in the fields named hints.
const (
	seriesRequestHints  = "hintspb.SeriesRequestHints"
	seriesResponseHints = "hintspb.SeriesResponseHints"
	namesRequestHints   = "hintspb.LabelNamesRequestHints"
	namesResponseHints  = "hintspb.LabelNamesResponseHints"
	valuesRequestHints  = "hintspb.LabelValuesRequestHints"
	valuesResponseHints = "hintspb.LabelValuesResponseHints"
)

// A groupShard selects the series of one shard of several; series that a grouping puts together are in the
// same shard. Thanos calls this vertical sharding. Unlike the shards of __query_shard__, it depends on the
// final labels of a series.
type groupShard struct {
	index, total uint64
	by           bool     // only labels in names count; otherwise only the others
	names        []string // sorted
}

// groupShardOf returns a request's shard, or nil if it requests all series.
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

// has reports whether a series with these labels, sorted by name, is in the shard. The hash is that of Thanos
// queriers, which distribute a query over stores: xxhash of each grouping label's name and value, each
// followed by the byte 0xff. has is safe for concurrent use and does not allocate.
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
