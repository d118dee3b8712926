package storegateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/store/tsblock"
)

// A Class is the kind of a request's error. APIs derive their status codes from it.
type Class uint8

// Classes of errors.
const (
	otherError   Class = iota
	OverLimit          // the query exceeds a limit, or its queue is full
	Unavailable        // the bucket, the queue or the served blocks: a retry may succeed
	CorruptBlock       // a block is damaged
	localFailure       // of a local file: the disk is full or has failed
	TimedOut
	Canceled
)

// ClassOf returns the class of an error that a query returned.
func ClassOf(err error) Class {
	switch {
	case isLimit(err), errors.Is(err, slab.ErrQueueFull):
		return OverLimit
	case errors.Is(err, slab.ErrShort), blocksync.IsNotFound(err),
		is[*incompleteError](err), is[*blocksync.BucketError](err), is[*queueError](err):
		return Unavailable
	case is[*tsblock.CorruptError](err):
		return CorruptBlock
	case is[*fs.PathError](err), is[*os.LinkError](err):
		return localFailure
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	case errors.Is(err, context.Canceled):
		return Canceled
	}
	return otherError
}

// is reports whether err is of type E.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// chunkError returns the error about a chunk that cannot be decoded, with its block, series and times. Errors of reading
// keep their class.
func chunkError(b *sharedBatch, series labels.Labels, c tsblock.Chunk, err error) error {
	id := b.stream.handle.Prefix()
	if ClassOf(err) != otherError || panics.Of(err) != nil {
		return fmt.Errorf("block %s: series %s: chunk of times %d to %d: %w", id, series, c.MinTime, c.MaxTime, err)
	}
	return &tsblock.CorruptError{
		Block: id, File: tsblock.SegmentFile(uint32(c.Ref >> 32)), Offset: int64(uint32(c.Ref)),
		Reason: fmt.Sprintf("series %s: chunk of times %d to %d: %v", series, c.MinTime, c.MaxTime, err),
	}
}

// loadError returns the error of loading a batch's chunks. If these do not fit into the query's bytes, it names the block and the series.
func (s *stream) loadError(b *tsblock.Batch, err error) error {
	if err == nil || !errors.Is(err, slab.ErrOverQuota) || b.Len() == 0 {
		return err
	}
	return fmt.Errorf("block %s: %d chunks of %d series: %w: raise the limit, or select less; if the block should not have such chunks, mark it for deletion",
		s.handle.Prefix(), b.ChunkCount(), b.Len(), err)
}
