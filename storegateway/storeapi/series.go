package storeapi

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taredb/tare/storegateway"
	"github.com/taredb/tare/storegateway/storepb"
	"github.com/taredb/tare/tsblock"
)

// Series implements the StoreAPI: it streams the series of all blocks in the time range, merged
// and sorted, each with the chunks that have a part in the range, whole. It copies each chunk
// once and allocates per message, not per series or chunk.
//
// Blocks that were downsampled are not served, so that chunks are raw whatever aggregates and
// max_resolution_window allow. step, range and query_hints are hints that change nothing.
func (a *API) Series(r *storepb.SeriesRequest, stream storepb.Store_SeriesServer) error {
	return a.series(r, a.guard(stream))
}

func (a *API) series(r *storepb.SeriesRequest, stream *guardedStream) (err error) {
	c := a.begin(stream.Context(), "Series", r.GetMinTime(), r.GetMaxTime())
	defer func() { err = c.end(recover(), err) }()
	return c.series(stream.Context(), r, stream)
}

func (c *call) series(ctx context.Context, r *storepb.SeriesRequest, stream *guardedStream) error {
	out := &grpc.GenericServerStream[storepb.SeriesRequest, storepb.SeriesResponse]{ServerStream: stream}
	var hints storepb.SeriesRequestHints
	request, err := c.seriesRequest(r, &hints)
	if err != nil {
		return err
	}
	kind := storegateway.StreamQuery
	if r.GetSkipChunks() {
		kind = storegateway.LightQuery
	}
	if err := c.admit(ctx, kind); err != nil {
		return err
	}
	began := time.Now()
	batch := int(min(r.GetResponseBatchSize(), math.MaxInt32))
	var set *storegateway.SeriesSet
	var w *seriesWriter
	var more bool
	err = c.untilSettled(ctx, func() (err error) {
		if set, err = c.query.Select(ctx, request); err != nil {
			return err
		}
		if more = set.Next(); !more && set.Err() != nil {
			return set.Err()
		}
		w, err = newSeriesWriter(stream, c.api.frames, c.query.Quota(), batch, compresses(ctx))
		return err
	})
	if err != nil {
		return err
	}
	defer set.Close()
	defer func() {
		c.entry.Series, c.entry.Chunks, c.entry.BytesOut = w.series, w.chunks, w.bytes
		w.close()
	}()
	for _, warning := range set.Missing().Warnings() {
		if err := out.Send(&storepb.SeriesResponse{Result: &storepb.SeriesResponse_Warning{Warning: warning}}); err != nil {
			return fmt.Errorf("send warning: %w", err)
		}
	}
	selected := time.Since(began)
	for ; more; more = set.Next() {
		s := set.At()
		if request.SkipChunks {
			s.Chunks = nil
		} else if i := unknownEncoding(s.Chunks); i >= 0 {
			return encodingError(set, s, &s.Chunks[i])
		}
		if err := w.write(s.Labels, s.Chunks); err != nil {
			return err
		}
	}
	if err := set.Err(); err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	set.Close() // its batches are not needed while the rest is sent
	if err := w.drain(); err != nil {
		return err
	}
	if r.GetHints() == nil {
		return nil // queriers count the message of hints against their limit
	}
	return c.seriesHints(out, hints.GetEnableQueryStats(), w, selected, time.Since(began)-selected)
}

// seriesRequest reads the request and its hints.
func (c *call) seriesRequest(r *storepb.SeriesRequest, hints *storepb.SeriesRequestHints) (storegateway.Request, error) {
	matchers, blocks, err := c.matchers(r.GetMatchers(), r.GetHints(), hints, seriesRequestHints, hints.GetBlockMatchers)
	if err != nil {
		return storegateway.Request{}, err
	}
	if len(matchers) == 0 {
		return storegateway.Request{}, badRequest("no matchers specified (excluding external labels)")
	}
	if _, _, err := tsblock.TakeShard(matchers); err != nil {
		return storegateway.Request{}, badRequest("%v", err)
	}
	shard, err := groupShardOf(r.GetShardInfo())
	if err != nil {
		return storegateway.Request{}, err
	}
	if r.GetLimit() < 0 || r.GetResponseBatchSize() < 0 {
		return storegateway.Request{}, badRequest("limit %d and response_batch_size %d: neither can be negative", r.GetLimit(), r.GetResponseBatchSize())
	}
	request := storegateway.Request{
		MinTime: r.GetMinTime(), MaxTime: r.GetMaxTime(), Matchers: matchers, Blocks: blocks,
		WithoutLabels: r.GetWithoutReplicaLabels(), SkipChunks: r.GetSkipChunks(),
	}
	if limit := r.GetLimit(); limit <= math.MaxInt32 {
		request.Limit = int(limit)
	}
	if shard != nil {
		request.Keep = shard.has
	}
	return request, nil
}

// encodingError names what the StoreAPI cannot say: it knows three encodings.
func encodingError(set *storegateway.SeriesSet, s *storegateway.Series, c *storegateway.ChunkView) error {
	b := labels.NewScratchBuilder(len(s.Labels))
	for _, l := range s.Labels {
		b.Add(l.Name, l.Value)
	}
	return status.Error(codes.Unimplemented, fmt.Sprintf(
		"block %s: series %s: a chunk at %d has encoding %d, and the StoreAPI supports only 1 (XOR), 2 (histogram) and 3 (float histogram); use /api/v1/read or PromQL over HTTP",
		set.BlockOf(c), b.Labels(), c.MinTime, c.Encoding))
}

// seriesHints says which blocks were read and, when asked, what that took.
func (c *call) seriesHints(stream storepb.Store_SeriesServer, withStats bool, w *seriesWriter, selected, merged time.Duration) error {
	hints := &storepb.SeriesResponseHints{QueriedBlocks: c.queriedBlocks()}
	if withStats {
		hints.QueryStats = queryStats(c.query.Stats(), w, selected, merged)
	}
	r := &storepb.SeriesResponse{Result: &storepb.SeriesResponse_Hints{Hints: anyOf(hints, seriesResponseHints)}}
	if err := stream.Send(r); err != nil {
		return fmt.Errorf("send hints: %w", err)
	}
	return nil
}

// queriedBlocks returns the blocks that have been read, each once.
func (c *call) queriedBlocks() []*storepb.Block {
	var blocks []*storepb.Block
	seen := make(map[string]bool)
	for _, b := range c.query.Explain() {
		if id := b.ID.String(); !seen[id] {
			seen[id] = true
			blocks = append(blocks, &storepb.Block{Id: id})
		}
	}
	return blocks
}

// queryStats says in Thanos' terms what a query took.
func queryStats(s storegateway.QueryStats, w *seriesWriter, selected, merged time.Duration) *storepb.QueryStats {
	total := s.Total()
	return &storepb.QueryStats{
		BlocksQueried:     int64(s.Blocks),
		MergedSeriesCount: int64(w.series),
		MergedChunksCount: int64(w.chunks),

		PostingsTouched:        s.Read.Postings.Items,
		PostingsTouchedSizeSum: s.Read.Postings.Touched,
		PostingsToFetch:        s.Read.Refs,
		PostingsFetched:        s.Read.Postings.Items,
		PostingsFetchedSizeSum: s.Read.Postings.Fetched,
		PostingsFetchCount:     s.Read.Postings.Reads,

		SeriesTouched:        s.Read.Series.Items,
		SeriesTouchedSizeSum: s.Read.Series.Touched,
		SeriesFetched:        s.Read.Series.Items,
		SeriesFetchedSizeSum: s.Read.Series.Fetched,
		SeriesFetchCount:     s.Read.Series.Reads,

		ChunksTouched:        s.Read.Chunks.Items,
		ChunksTouchedSizeSum: s.Read.Chunks.Touched,
		ChunksFetched:        s.Read.Chunks.Items,
		ChunksFetchedSizeSum: s.Read.Chunks.Fetched,
		ChunksFetchCount:     s.Read.Chunks.Reads,

		DataDownloadedSizeSum: total.Fetched,
		GetAllDuration:        durationpb.New(selected),
		MergeDuration:         durationpb.New(merged),
	}
}
