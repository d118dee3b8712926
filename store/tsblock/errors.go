package tsblock

import (
	"errors"
	"strconv"
)

// Errors that signal the end of data. They are never wrapped around a failure. io.EOF, which every reader and
// file returns, would make a failed read look like the end.
var (
	// ErrNoMoreSeries is returned by SeriesReader.Next after the last batch.
	ErrNoMoreSeries = errors.New("no more series")

	// ErrObjectEnd is returned by Source.ReadRange when the object ends before the range.
	ErrObjectEnd = errors.New("the object ends before the range")
)

// errClosed is wrapped by the errors of readers of a closed block.
var errClosed = errors.New("block is closed")

// A CorruptError reports bytes of a block that violate its format.
type CorruptError struct {
	Block  string // prefix of the block's objects
	File   string // within the block: "index", "chunks/000001"; of local files, their name
	Offset int64  // in the file, of the corrupt bytes
	Reason string
}

// Error returns the block, the file, the offset and the reason.
func (e *CorruptError) Error() string {
	return "block " + e.Block + ": " + e.Detail()
}

// Detail returns the file, the offset and the reason.
func (e *CorruptError) Detail() string {
	return e.File + " at " + strconv.FormatInt(e.Offset, 10) + ": " + e.Reason
}

// isCorrupt reports whether an error is about bytes of a block rather than about reading them.
func isCorrupt(err error) bool {
	_, ok := errors.AsType[*CorruptError](err)
	return ok
}

// Reasons of corruption that several decoders use.
const (
	badChecksum = "checksum mismatch"
	endsEarly   = "the file ends early"
	badLength   = "a length goes past what holds it"
	badVarint   = "a number does not end"
)
