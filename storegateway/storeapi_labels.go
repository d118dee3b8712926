package storegateway

import (
	"context"
	"math"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/taredb/tare/storegateway/storepb"
)

// LabelNames implements the StoreAPI: the names of the labels, external ones too, of the series
// that meet all matchers.
func (a *StoreAPI) LabelNames(ctx context.Context, r *storepb.LabelNamesRequest) (response *storepb.LabelNamesResponse, err error) {
	c := a.begin(ctx, "LabelNames", r.GetStart(), r.GetEnd())
	defer func() { err = c.end(recover(), err) }()
	var hints storepb.LabelNamesRequestHints
	response = &storepb.LabelNamesResponse{}
	names, missing, blocks, err := c.values(ctx, r, &hints, namesRequestHints, hints.GetBlockMatchers, "")
	if err == nil {
		response.Names, response.Warnings = names, missing.Warnings()
		if r.GetHints() != nil {
			response.Hints = anyOf(&storepb.LabelNamesResponseHints{QueriedBlocks: blocks}, namesResponseHints)
		}
	}
	return response, err
}

// LabelValues implements the StoreAPI: the values of one label, which may be external, of the
// series that meet all matchers.
func (a *StoreAPI) LabelValues(ctx context.Context, r *storepb.LabelValuesRequest) (response *storepb.LabelValuesResponse, err error) {
	c := a.begin(ctx, "LabelValues", r.GetStart(), r.GetEnd())
	defer func() { err = c.end(recover(), err) }()
	var hints storepb.LabelValuesRequestHints
	response = &storepb.LabelValuesResponse{}
	var values []string
	var missing Missing
	var blocks []*storepb.Block
	if r.GetLabel() == "" {
		err = badRequest("label name parameter cannot be empty")
	} else {
		values, missing, blocks, err = c.values(ctx, r, &hints, valuesRequestHints, hints.GetBlockMatchers, r.GetLabel())
	}
	if err == nil {
		response.Values, response.Warnings = values, missing.Warnings()
		if r.GetHints() != nil {
			response.Hints = anyOf(&storepb.LabelValuesResponseHints{QueriedBlocks: blocks}, valuesResponseHints)
		}
	}
	return response, err
}

// A labelsRequest is what requests for names and for values have in common.
type labelsRequest interface {
	GetStart() int64
	GetEnd() int64
	GetMatchers() []*storepb.LabelMatcher
	GetHints() *anypb.Any
	GetWithoutReplicaLabels() []string
	GetLimit() int64
}

// values answers a request for the values of a label, or for names when label is "".
func (c *call) values(ctx context.Context, r labelsRequest, hints vtMessage, name string, blockMatchers func() []*storepb.LabelMatcher, label string) ([]string, Missing, []*storepb.Block, error) {
	matchers, blocks, err := c.matchers(r.GetMatchers(), r.GetHints(), hints, name, blockMatchers)
	if err != nil {
		return nil, Missing{}, nil, err
	}
	if r.GetLimit() < 0 {
		return nil, Missing{}, nil, badRequest("limit %d is negative", r.GetLimit())
	}
	if err := c.admit(ctx, lightQuery); err != nil {
		return nil, Missing{}, nil, err
	}
	request := LabelsRequest{
		MinTime: r.GetStart(), MaxTime: r.GetEnd(), Matchers: matchers, Blocks: blocks,
		Without: r.GetWithoutReplicaLabels(), Limit: int(min(r.GetLimit(), math.MaxInt32)),
	}
	var found []string
	var missing Missing
	err = c.atMostTwice(ctx, func() (err error) {
		if label == "" {
			found, missing, err = c.query.LabelNames(ctx, request)
		} else {
			found, missing, err = c.query.LabelValues(ctx, label, request)
		}
		return err
	})
	if err != nil {
		return nil, Missing{}, nil, err
	}
	c.entry.Series = uint64(len(found))
	for _, v := range found {
		c.entry.BytesOut += uint64(textLen(len(v)))
	}
	return found, missing, c.queriedBlocks(), nil
}
