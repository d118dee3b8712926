package storeapi

import (
	"context"
	"math"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/store/storepb"
)

// componentType is Thanos' name for a store that reads a bucket.
const componentType = "store"

// Info implements the InfoAPI. It returns the external labels and time ranges of the blocks, by which a
// querier decides whether to query the store, clipped to the time range of the process. Before the first sync it
// returns Unavailable: a querier would take an empty range for that of the store, and omit it without a warning.
func (a *API) Info(context.Context, *storepb.InfoRequest) (*storepb.InfoResponse, error) {
	if err := a.gateway.CheckReady(); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	store := &storepb.StoreInfo{
		MinTime: math.MaxInt64, MaxTime: math.MinInt64, // empty range until there are blocks
		SupportsSharding: true, SupportsWithoutReplicaLabels: true,
	}
	response := &storepb.InfoResponse{ComponentType: componentType, Store: store}
	ranges := make(map[string][]*storepb.TSDBInfo)
	for _, b := range a.gateway.Blocks() { // by tenant and time
		b.MinTime, b.MaxTime = a.gateway.Clip(b.MinTime, b.MaxTime)
		store.MinTime, store.MaxTime = min(store.MinTime, b.MinTime), max(store.MaxTime, b.MaxTime)
		labels := labelSetOf(b.Labels)
		key := labels.String()
		known := ranges[key]
		if len(known) == 0 {
			response.LabelSets = append(response.LabelSets, labels)
		}
		// Merge blocks that touch or overlap into one range.
		if last := len(known) - 1; last >= 0 && b.MinTime <= known[last].MaxTime && b.MinTime >= known[last].MinTime {
			known[last].MaxTime = max(known[last].MaxTime, b.MaxTime)
			continue
		}
		ranges[key] = append(known, &storepb.TSDBInfo{Labels: labels, MinTime: b.MinTime, MaxTime: b.MaxTime})
	}
	slices.SortFunc(response.LabelSets, func(x, y *storepb.LabelSet) int { return strings.Compare(x.String(), y.String()) })
	for _, labels := range response.LabelSets {
		store.TsdbInfos = append(store.TsdbInfos, ranges[labels.String()]...)
	}
	return response, nil
}

// labelSetOf returns labels in the API's form, sorted by name.
func labelSetOf(labels map[string]string) *storepb.LabelSet {
	set := &storepb.LabelSet{}
	for name, value := range labels {
		set.Labels = append(set.Labels, &storepb.Label{Name: name, Value: value})
	}
	slices.SortFunc(set.Labels, func(x, y *storepb.Label) int { return strings.Compare(x.Name, y.Name) })
	return set
}
