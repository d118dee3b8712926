package activeseries

import (
	"errors"
	"fmt"
	"strconv"
)

// A Fault is the kind of an invalid body.
type Fault uint8

const (
	// Truncated reports a body that ends before it is complete.
	Truncated Fault = iota + 1
	// Syntax reports bytes that are not JSON (RFC 8259).
	Syntax
	// Encoding reports a string that is not valid UTF-8.
	Encoding
	// Depth reports values that are nested deeper than maxDepth.
	Depth
	// Size reports an item, or a string or number beside the items, that is longer than maxItem.
	Size
	// Shape reports valid JSON that is not a list of objects with string values in one member "data".
	Shape
	// Reading reports that the source of the body failed. The error wraps the reader's.
	Reading
)

// String returns the fault as the value of a metric's label.
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
	case Reading:
		return "reading"
	}
	return "fault " + strconv.Itoa(int(f))
}

// An Error reports an invalid body and the position of the fault.
type Error struct {
	Shard  string // shard of the body; "" until it is known
	Offset int64  // of the first invalid byte
	Fault  Fault
	Detail string // description
	Err    error  // the reader's error if Fault is Reading
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

// Unwrap returns the reader's error, if there is one.
func (e *Error) Unwrap() error { return e.Err }

// A ReportedError is a failure that a valid body reports, in its members "status", "errorType" and
// "error". Items may precede it.
type ReportedError struct {
	Shard string // shard of the body; "" until it is known
	Type  string // of member "errorType"
	Text  string // of member "error", at most maxErrorText bytes
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

// A BudgetError reports a response that needs more bytes than allowed.
type BudgetError struct {
	What    string // "duplicates", "counts" or "response"
	Allowed int64  // in bytes
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("%s need more than the %d bytes allowed", e.What, e.Allowed)
}

// nameShard sets the shard of an error that has none.
func nameShard(err error, shard string) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Shard == "" {
		e.Shard = shard
	}
	if e, ok := errors.AsType[*ReportedError](err); ok && e.Shard == "" {
		e.Shard = shard
	}
	return err
}
