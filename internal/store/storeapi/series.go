package storeapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// series streams the series of all blocks in the time range, merged and sorted, each with the complete chunks that overlap the range. It
// copies each chunk once and allocates per message, not per series or chunk.
//
// Of blocks that have the same samples it reads the coarsest that max_resolution_window allows. Chunks of
// downsampled blocks have the aggregates of the request. The hints step, range and query_hints change nothing.
func (a *API) series(r *storepb.SeriesRequest, stream *guardedStream) (err error) {
	c := a.newCall(stream.Context(), "Series", r.GetMinTime(), r.GetMaxTime())
	defer func() { err = c.finish(recover(), err) }()
	return c.series(stream.Context(), r, stream)
}

func (c *call) series(ctx context.Context, r *storepb.SeriesRequest, stream *guardedStream) error {
	var hints storepb.SeriesRequestHints
	request, err := c.seriesRequest(ctx, r, &hints)
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
	s := seriesResponse{
		call: c, stream: stream, wanted: request, rest: request,
		batch: int(min(r.GetResponseBatchSize(), math.MaxInt32)), aggregates: r.GetAggregates(),
	}
	defer func() {
		c.entry.Series, c.entry.Chunks, c.entry.BytesOut = s.sent.series, s.sent.chunks, s.sent.bytes
	}()
	if err := c.retry(ctx, s.send); err != nil {
		return err
	}
	if r.GetHints() == nil {
		return nil // queriers would count the message of hints against their limit
	}
	return c.seriesHints(stream, hints.GetEnableQueryStats(), &s.sent, s.selected.Sub(began), time.Since(s.selected))
}

// A seriesResponse sends the messages of a response to Series. Series are sent complete and in the order of
// their labels. A response that reads a deleted block therefore resumes after the last series sent, from the
// blocks then in the bucket.
type seriesResponse struct {
	*call
	stream *guardedStream
	batch  int

	aggregates []storepb.Aggr // requested of downsampled blocks

	wanted   storegateway.Request
	rest     storegateway.Request // the part of wanted that was not sent yet
	last     lastLabels           // labels of the last series sent
	sent     sent
	selected time.Time // when the first series was found
	broken   error     // error that interrupted the response; nil: none
}

// send sends the rest of the response. It returns errors of the blocks after it has sent all series before
// them.
func (s *seriesResponse) send(ctx context.Context) error {
	set, err := s.query.Select(ctx, s.rest)
	if err != nil {
		return err
	}
	defer set.Close()
	more := set.Next()
	if !more && set.Err() != nil {
		return set.Err()
	}
	w, err := newSeriesWriter(s.stream, s.api.frames, s.query.Quota(), s.batch, s.stream.compressed)
	if err != nil {
		return err
	}
	convert := converter{quota: s.query.Quota(), aggregates: s.aggregates}
	defer func() {
		s.sent.add(&w.sent)
		w.close()
		convert.close()
	}()
	if err := s.warn(set); err != nil {
		return finalError{err}
	}
	if s.selected.IsZero() {
		s.selected = time.Now()
	}
	var broken error
	for ; more; more = set.Next() {
		series := set.At()
		var chunks []storegateway.ChunkView
		if !s.rest.SkipChunks {
			if chunks, broken = convert.convert(set); broken != nil {
				break
			}
		}
		if err := w.write(series.Labels, chunks); err != nil {
			return finalError{err} // parts of the series may have been sent
		}
		s.last.set(series.Labels)
	}
	if broken == nil {
		broken = set.Err()
	}
	if broken != nil && !leftOut(broken) && !errors.Is(broken, slab.ErrShort) {
		return broken
	}
	set.Close() // sending the rest needs none of its batches
	if err := w.flush(); err != nil {
		return finalError{err}
	}
	if err := w.drain(); err != nil {
		return finalError{err}
	}
	if broken != nil {
		s.resumeAfter(w.series, broken)
	}
	return broken
}

// leftOut reports whether a response that err interrupted resumes without the block of err.
func leftOut(err error) bool {
	return blocksync.IsNotFound(err) || storegateway.ClassOf(err) == storegateway.CorruptBlock
}

// warn sends the warnings of a set: missing blocks, and blocks that interrupted the response.
func (s *seriesResponse) warn(set *storegateway.SeriesSet) error {
	warnings := set.Missing().Warnings()
	if leftOut(s.broken) && s.sent.series > 0 {
		warnings = append(warnings, fmt.Sprintf("series after %s are from other blocks: %v", storegateway.BuiltLabels(s.last.labels()), s.broken))
	}
	for _, warning := range warnings {
		if err := s.sendResponse(s.stream, &storepb.SeriesResponse{Result: &storepb.SeriesResponse_Warning{Warning: warning}}); err != nil {
			return fmt.Errorf("send warning: %w", err)
		}
	}
	return nil
}

// resumeAfter records that the given number of series was sent before the response was interrupted.
func (s *seriesResponse) resumeAfter(series uint64, broken error) {
	s.broken = broken
	if series == 0 {
		return
	}
	if s.rest.Limit > 0 {
		s.rest.Limit -= int(series)
	}
	last, keep := s.last.labels(), s.wanted.Keep
	s.rest.Keep = func(ls []tsblock.Label) bool {
		return storegateway.CompareLabels(ls, last) > 0 && (keep == nil || keep(ls))
	}
}

// lastLabels is a copy of the labels of a series, in memory that is reused for the next.
type lastLabels struct {
	text []byte
	ends []int // end offsets of names and values in text
}

// set copies labels. It does not allocate once there is room.
func (l *lastLabels) set(ls []tsblock.Label) {
	l.text, l.ends = l.text[:0], l.ends[:0]
	for i := range ls {
		l.text = append(l.text, ls[i].Name...)
		l.ends = append(l.ends, len(l.text))
		l.text = append(l.text, ls[i].Value...)
		l.ends = append(l.ends, len(l.text))
	}
}

// labels returns a copy of the labels.
func (l *lastLabels) labels() []tsblock.Label {
	text, from := string(l.text), 0
	ls := make([]tsblock.Label, 0, len(l.ends)/2)
	for i := 0; i < len(l.ends); i += 2 {
		ls = append(ls, tsblock.Label{Name: text[from:l.ends[i]], Value: text[l.ends[i]:l.ends[i+1]]})
		from = l.ends[i+1]
	}
	return ls
}

// seriesRequest converts the request and its hints.
func (c *call) seriesRequest(ctx context.Context, r *storepb.SeriesRequest, hints *storepb.SeriesRequestHints) (storegateway.Request, error) {
	matchers, blocks, err := c.matchers(ctx, r.GetMatchers(), r.GetHints(), hints, seriesRequestHints, hints.GetBlockMatchers)
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
		MaxResolution: blocksync.Resolution(max(r.GetMaxResolutionWindow(), 0)),
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

// seriesHints sends the blocks that were read and, if requested, the costs.
func (c *call) seriesHints(stream *guardedStream, withStats bool, w *sent, selected, merged time.Duration) error {
	hints := &storepb.SeriesResponseHints{QueriedBlocks: c.queriedBlocks()}
	if withStats {
		hints.QueryStats = queryStats(c.query.Stats(), w, selected, merged)
	}
	r := &storepb.SeriesResponse{Result: &storepb.SeriesResponse_Hints{Hints: anyOf(hints, seriesResponseHints)}}
	if err := c.sendResponse(stream, r); err != nil {
		return fmt.Errorf("send hints: %w", err)
	}
	return nil
}

// queriedBlocks returns the blocks that were read, without duplicates.
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

// queryStats converts the costs of a query to Thanos' form.
func queryStats(s storegateway.QueryStats, w *sent, selected, merged time.Duration) *storepb.QueryStats {
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
