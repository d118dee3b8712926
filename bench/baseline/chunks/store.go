package chunks

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/store/tsblock"
)

// A Store serves selects from one block. Package tsblock provides the matching series, their labels and chunk
// references, which the change did not touch; a Reader provides the chunks.
type Store struct {
	block  *tsblock.Block
	bucket Bucket
	pool   *BytesPool
}

// NewStore returns a store of a block whose chunks are read from the bucket.
func NewStore(block *tsblock.Block, bucket Bucket) *Store {
	return &Store{block: block, bucket: bucket, pool: NewBytesPool(64<<10, 1<<20)}
}

// Select visits the sorted series that match and are in the shard, each with all its chunks. As in the
// original, all chunks are loaded before the first visit. They are valid during the visit.
func (s *Store) Select(ctx context.Context, shard tsblock.Shard, visit func([]tsblock.Label, []tsblock.Chunk, []*Chunk) error, ms ...*labels.Matcher) error {
	index := s.block.Reader(nil)
	defer index.Close()
	postings, err := index.Postings(ctx, ms...)
	if err != nil {
		return fmt.Errorf("match: %w", err)
	}
	series := index.Series(postings, tsblock.Select{
		MinTime: math.MinInt64, MaxTime: math.MaxInt64, Shard: shard, BatchBytes: math.MaxInt64,
	})
	for {
		batch, err := series.Next(ctx)
		if errors.Is(err, tsblock.ErrNoMoreSeries) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read series: %w", err)
		}
		err = s.visit(ctx, batch, visit)
		batch.Release()
		if err != nil {
			return err
		}
	}
}

// visit loads the chunks of a batch.
func (s *Store) visit(ctx context.Context, batch *tsblock.Batch, visit func([]tsblock.Label, []tsblock.Chunk, []*Chunk) error) error {
	refs := make([]uint64, 0, batch.ChunkCount())
	for i := range batch.Len() {
		for _, c := range batch.Chunks(i) {
			refs = append(refs, c.Ref)
		}
	}
	reader := NewReader(s.bucket, s.block.Prefix(), s.pool)
	defer reader.Close()
	loaded, err := reader.Load(ctx, refs)
	if err != nil {
		return err
	}
	for i := range batch.Len() {
		n := len(batch.Chunks(i))
		if err := visit(batch.Labels(i), batch.Chunks(i), loaded[:n:n]); err != nil {
			return err
		}
		loaded = loaded[n:]
	}
	return nil
}
