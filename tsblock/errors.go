package tsblock

import (
	"errors"
	"strconv"
)

// The ends of data. They are our own, and neither is ever wrapped around a failure: io.EOF, which every
// reader and file returns, would let a broken read pass for an end.
var (
	// ErrNoMoreSeries is returned by SeriesReader.Next after the last batch.
	ErrNoMoreSeries = errors.New("no more series")

	// ErrObjectEnd is returned by Source.ReadRange when the object ends before the range.
	ErrObjectEnd = errors.New("the object ends before the range")
)

// ErrClosed is wrapped by the errors of readers of a block that has been closed.
var ErrClosed = errors.New("block is closed")

// A CorruptError says that bytes of a block are not what its format allows.
type CorruptError struct {
	Block  string // prefix of the block's objects
	File   string // within the block: "index", "chunks/000001"; of local files their name
	Offset int64  // in the file, of what cannot be read
	Reason string
}

// Error names block, file and offset.
func (e *CorruptError) Error() string {
	return "block " + e.Block + ": " + e.File + " at " + strconv.FormatInt(e.Offset, 10) + ": " + e.Reason
}

// isCorrupt reports whether an error is about bytes of a block, not about reading them.
func isCorrupt(err error) bool {
	_, ok := errors.AsType[*CorruptError](err)
	return ok
}

// What is wrong with bytes, in the words that all decoders use.
const (
	badChecksum = "checksum mismatch"
	endsEarly   = "the file ends early"
	badLength   = "a length goes past what holds it"
	badVarint   = "a number does not end"
)
