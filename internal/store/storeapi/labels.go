package storeapi

import (
	"context"
	"math"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/store/storegateway"
)

// LabelNames implements the StoreAPI. It returns the names of the labels, including external ones, of the
// series that match all matchers.
func (a *API) LabelNames(ctx context.Context, r *storepb.LabelNamesRequest) (response *storepb.LabelNamesResponse, err error) {
	c := a.newCall(ctx, "LabelNames", r.GetStart(), r.GetEnd())
	defer func() { err = c.finish(recover(), err) }()
	return c.labelNames(ctx, r, unencoded)
}

// unencoded is the encode function for callers in this process.
func unencoded(vtMessage) error { return nil }

// labelNames calls encode with the response while the query is open.
func (c *call) labelNames(ctx context.Context, r *storepb.LabelNamesRequest, encode func(vtMessage) error) (response *storepb.LabelNamesResponse, err error) {
	var hints storepb.LabelNamesRequestHints
	err = c.values(ctx, r, &hints, namesRequestHints, hints.GetBlockMatchers, "", func(names []string, missing blocksync.Missing) error {
		response = &storepb.LabelNamesResponse{Names: names, Warnings: missing.Warnings()}
		if r.GetHints() != nil {
			response.Hints = anyOf(&storepb.LabelNamesResponseHints{QueriedBlocks: c.queriedBlocks()}, namesResponseHints)
		}
		return encode(response)
	})
	return response, err
}

// LabelValues implements the StoreAPI. It returns the values of one label, which may be external, of the
// series that match all matchers.
func (a *API) LabelValues(ctx context.Context, r *storepb.LabelValuesRequest) (response *storepb.LabelValuesResponse, err error) {
	c := a.newCall(ctx, "LabelValues", r.GetStart(), r.GetEnd())
	defer func() { err = c.finish(recover(), err) }()
	return c.labelValues(ctx, r, unencoded)
}

// labelValues calls encode with the response while the query is open.
func (c *call) labelValues(ctx context.Context, r *storepb.LabelValuesRequest, encode func(vtMessage) error) (response *storepb.LabelValuesResponse, err error) {
	if r.GetLabel() == "" {
		return nil, badRequest("label name parameter cannot be empty")
	}
	var hints storepb.LabelValuesRequestHints
	err = c.values(ctx, r, &hints, valuesRequestHints, hints.GetBlockMatchers, r.GetLabel(), func(values []string, missing blocksync.Missing) error {
		response = &storepb.LabelValuesResponse{Values: values, Warnings: missing.Warnings()}
		if r.GetHints() != nil {
			response.Hints = anyOf(&storepb.LabelValuesResponseHints{QueriedBlocks: c.queriedBlocks()}, valuesResponseHints)
		}
		return encode(response)
	})
	return response, err
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
	matchers, blocks, err := c.matchers(r.GetMatchers(), r.GetHints(), hints, name, blockMatchers)
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
