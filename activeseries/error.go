package activeseries

import (
	"errors"
	"fmt"
	"strconv"
)

// A Fault is what is wrong with a body.
type Fault uint8

const (
	// Truncated says that the body ends before it is complete.
	Truncated Fault = iota + 1
	// Syntax says that the bytes are no JSON (RFC 8259), or no frames.
	Syntax
	// Encoding says that a string is not valid UTF-8.
	Encoding
	// Depth says that values are nested deeper than MaxDepth.
	Depth
	// Size says that an item, or a string or number beside the items, is longer than MaxItem.
	Size
	// Shape says that it is valid JSON, but not a list of objects with string values in one member "data".
	Shape
	// Checksum says that the end record's count or checksum is not that of the frames.
	Checksum
	// Reading says that the source of the body failed. The error wraps the reader's.
	Reading
)

// String is the fault in a word, as a metric's label has it.
func (f Fault) String() string {
	switch f {
	case Truncated:
		return "truncated"
	case Syntax:
		return "syntax"
	case Encoding:
		return "encoding"
	case Depth:
		return "depth"
	case Size:
		return "size"
	case Shape:
		return "shape"
	case Checksum:
		return "checksum"
	case Reading:
		return "reading"
	}
	return "fault " + strconv.Itoa(int(f))
}

// An Error says where a body is wrong.
type Error struct {
	Shard  string // whose body; written by whoever knows, "" before
	Offset int64  // of the first byte that cannot be part of an answer
	Fault  Fault
	Detail string // in words
	Err    error  // the reader's, when Fault is Reading
}

func (e *Error) Error() string {
	at := "at byte " + strconv.FormatInt(e.Offset, 10) + ": "
	if e.Shard != "" {
		at = "shard " + e.Shard + " " + at
	}
	if e.Err != nil {
		return at + e.Detail + ": " + e.Err.Error()
	}
	return at + e.Detail
}

// Unwrap is the reader's error, if there is one.
func (e *Error) Unwrap() error { return e.Err }

// A ReportedError is a failure that a valid body tells of by itself, in its members "status",
// "errorType" and "error" or in an error record. Items may have come before it.
type ReportedError struct {
	Shard string // whose body; written by whoever knows, "" before
	Type  string // of member "errorType"
	Text  string // of member "error", at most MaxErrorText bytes
}

func (e *ReportedError) Error() string {
	text := e.Text
	if e.Type != "" {
		text = e.Type + ": " + text
	}
	if e.Shard == "" {
		return "reported: " + text
	}
	return fmt.Sprintf("shard %s reports: %s", e.Shard, text)
}

// A BudgetError says that an answer needs more bytes than it may take here.
type BudgetError struct {
	What    string // "duplicates", "counts" or "response"
	Allowed int64  // bytes
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("%s need more than the %d bytes allowed", e.What, e.Allowed)
}

// nameShard writes shard into an error that does not name one yet.
func nameShard(err error, shard string) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Shard == "" {
		e.Shard = shard
	}
	if e, ok := errors.AsType[*ReportedError](err); ok && e.Shard == "" {
		e.Shard = shard
	}
	return err
}
