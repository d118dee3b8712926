package storegateway

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/taredb/tare/slab"
	"github.com/taredb/tare/storegateway/blocksync"
	"github.com/taredb/tare/tsblock"
)

// A Class is the kind of an error of a request, by which APIs choose its code.
type Class uint8

// Classes of errors.
const (
	OtherError   Class = iota
	OverLimit          // the query needs more than one may have, or its queue is full
	Unavailable        // the bucket, the queue, or the blocks that are served: the same request may succeed later
	CorruptBlock       // a block is damaged
	LocalFailure       // a local file: the disk is full, or has failed
	TimedOut
	Canceled
)

// ClassOf returns the class of an error that a query has returned.
func ClassOf(err error) Class {
	switch {
	case IsLimit(err), errors.Is(err, slab.ErrQueueFull):
		return OverLimit
	case errors.Is(err, slab.ErrShort), blocksync.IsGone(err),
		is[*IncompleteError](err), is[*blocksync.BucketError](err), is[*QueueError](err):
		return Unavailable
	case is[*tsblock.CorruptError](err):
		return CorruptBlock
	case is[*fs.PathError](err), is[*os.LinkError](err):
		return LocalFailure
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	case errors.Is(err, context.Canceled):
		return Canceled
	}
	return OtherError
}

// is reports whether err is of type E.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
