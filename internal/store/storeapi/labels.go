package storeapi

import (
	"context"
	"math"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/store/storegateway"
)

// labelNames finds the names of the labels, including external ones, of the series that match all matchers. It calls encode with the
// response while the query is open.
func (c *call) labelNames(ctx context.Context, r *storepb.LabelNamesRequest, encode func(vtMessage) error) error {
	var hints storepb.LabelNamesRequestHints
	return c.values(ctx, r, &hints, namesRequestHints, hints.GetBlockMatchers, "", func(names []string, missing blocksync.Missing) error {
		response := &storepb.LabelNamesResponse{Names: names, Warnings: missing.Warnings()}
		if r.GetHints() != nil {
			response.Hints = anyOf(&storepb.LabelNamesResponseHints{QueriedBlocks: c.queriedBlocks()}, namesResponseHints)
		}
		return encode(response)
	})
}

// labelValues finds the values of one label, which may be external, of the series that match all matchers. It calls encode with the
// response while the query is open.
func (c *call) labelValues(ctx context.Context, r *storepb.LabelValuesRequest, encode func(vtMessage) error) error {
	if r.GetLabel() == "" {
		return badRequest("label name parameter cannot be empty")
	}
	var hints storepb.LabelValuesRequestHints
	return c.values(ctx, r, &hints, valuesRequestHints, hints.GetBlockMatchers, r.GetLabel(), func(values []string, missing blocksync.Missing) error {
		response := &storepb.LabelValuesResponse{Values: values, Warnings: missing.Warnings()}
		if r.GetHints() != nil {
			response.Hints = anyOf(&storepb.LabelValuesResponseHints{QueriedBlocks: c.queriedBlocks()}, valuesResponseHints)
		}
		return encode(response)
	})
}

// A labelsRequest is the common part of requests for names and for values.
type labelsRequest interface {
	GetStart() int64
	GetEnd() int64
	GetMatchers() []*storepb.LabelMatcher
	GetHints() *anypb.Any
	GetWithoutReplicaLabels() []string
	GetLimit() int64
}

// values finds the values of a label, or the names if label is "", and calls respond with them while the
// query is open.
func (c *call) values(ctx context.Context, r labelsRequest, hints vtMessage, name string, blockMatchers func() []*storepb.LabelMatcher, label string,
	respond func([]string, blocksync.Missing) error,
) error {
	matchers, blocks, err := c.matchers(ctx, r.GetMatchers(), r.GetHints(), hints, name, blockMatchers)
	if err != nil {
		return err
	}
	if r.GetLimit() < 0 {
		return badRequest("limit %d is negative", r.GetLimit())
	}
	if err := c.admit(ctx, storegateway.LightQuery); err != nil {
		return err
	}
	request := storegateway.LabelsRequest{
		MinTime: r.GetStart(), MaxTime: r.GetEnd(), Matchers: matchers, Blocks: blocks,
		Without: r.GetWithoutReplicaLabels(), Limit: int(min(r.GetLimit(), math.MaxInt32)),
	}
	return c.retry(ctx, func(ctx context.Context) error {
		var found []string
		var missing blocksync.Missing
		var err error
		if label == "" {
			found, missing, err = c.query.LabelNames(ctx, request)
		} else {
			found, missing, err = c.query.LabelValues(ctx, label, request)
		}
		if err != nil {
			return err
		}
		c.entry.Series, c.entry.BytesOut = uint64(len(found)), 0
		for _, v := range found {
			c.entry.BytesOut += uint64(textLen(len(v)))
		}
		return respond(found, missing)
	})
}
