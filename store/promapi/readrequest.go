package promapi

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"google.golang.org/protobuf/encoding/protowire"
)

// readRequest is prometheus.ReadRequest of remote.proto.
type readRequest struct {
	queries []readQuery
	accepts []uint64 // accepted response types, in the client's order
}

// readQuery is prometheus.Query. Times are Unix milliseconds, both inclusive.
type readQuery struct {
	start, end int64
	matchers   []*labels.Matcher
	hints      *storage.SelectHints // from the client; nil: none
}

// selectHints returns the part of the client's hints that is passed to the storage: the part of the query's
// time range that the client evaluates, and the step. The function, its grouping and its range are not passed
// on: a storage reads less for some functions ("series" needs no samples), and a client's hint must not
// change the result.
func (q *readQuery) selectHints() *storage.SelectHints {
	if q.hints == nil {
		return nil
	}
	return &storage.SelectHints{Start: max(q.hints.Start, q.start), End: min(q.hints.End, q.end), Step: q.hints.Step}
}

// Limits of a request. Each query is a selection, each matcher possibly an expression to compile.
const (
	maxReadQueries  = 100
	maxReadMatchers = 1000
)

// Response types (ReadRequest.ResponseType).
const (
	formSamples = 0
	formChunks  = 1
)

// streamed reports whether the response is streamed chunks rather than samples. It is samples for a client that
// cannot detect a truncated stream, as over HTTP/1.0, where the end of the connection is the end of the body.
func (r *readRequest) streamed(detectsTruncation bool) (bool, error) {
	if len(r.accepts) == 0 {
		return false, nil
	}
	if !detectsTruncation && !slices.Contains(r.accepts, formSamples) && slices.Contains(r.accepts, formChunks) {
		return false, errors.New("a truncated stream of chunks would look complete over HTTP/1.0: accept SAMPLES too, or use HTTP/1.1 " +
			"(in nginx, proxy_http_version 1.1)")
	}
	for _, form := range r.accepts {
		switch form {
		case formSamples:
			return false, nil
		case formChunks:
			if detectsTruncation {
				return true, nil
			}
		}
	}
	return false, fmt.Errorf("server does not support any of the requested response types: %v; supported: map[SAMPLES:{} STREAMED_XOR_CHUNKS:{}]", r.accepts)
}

func msTime(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// A field is one field of a message: its number and either a varint or bytes. Fields of fixed width, which
// these messages do not have, read as the varint 0.
type field struct {
	num   protowire.Number
	typ   protowire.Type
	value uint64
	bytes []byte
}

// eachField calls f for each field of a message.
func eachField(b []byte, f func(field) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		x := field{num: num, typ: typ}
		switch typ {
		case protowire.VarintType:
			x.value, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			x.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := f(x); err != nil {
			return err
		}
	}
	return nil
}

var errWireType = errors.New("a field is of another type than its number says")

// requireType returns an error for a known field with the wrong wire type.
func (f *field) requireType(typ protowire.Type) error {
	if f.typ != typ {
		return fmt.Errorf("field %d: %w", f.num, errWireType)
	}
	return nil
}

// decodeReadRequest decodes a ReadRequest, whose regular expressions are added to others. It skips unknown fields. The result shares no
// memory with b.
func decodeReadRequest(b []byte, others *regexps) (*readRequest, error) {
	r, matchers := new(readRequest), 0
	err := eachField(b, func(f field) error {
		switch f.num {
		case 1:
			if err := f.requireType(protowire.BytesType); err != nil {
				return err
			}
			if len(r.queries) == maxReadQueries {
				return fmt.Errorf("more than %d queries: send several requests", maxReadQueries)
			}
			q, err := decodeReadQuery(f.bytes, maxReadMatchers-matchers, others)
			if err != nil {
				return fmt.Errorf("query %d: %w", len(r.queries), err)
			}
			matchers += len(q.matchers)
			r.queries = append(r.queries, q)
		case 2:
			if f.typ == protowire.VarintType {
				r.accepts = append(r.accepts, f.value)
				return nil
			}
			if err := f.requireType(protowire.BytesType); err != nil {
				return err
			}
			for b := f.bytes; len(b) > 0; {
				v, n := protowire.ConsumeVarint(b)
				if n < 0 {
					return protowire.ParseError(n)
				}
				r.accepts = append(r.accepts, v)
				b = b[n:]
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("decode the request: %w", err)
	}
	return r, nil
}

// decodeReadQuery decodes a query with at most the given number of matchers.
func decodeReadQuery(b []byte, most int, others *regexps) (readQuery, error) {
	var q readQuery
	err := eachField(b, func(f field) error {
		want := protowire.VarintType
		if f.num == 3 || f.num == 4 {
			want = protowire.BytesType
		}
		if f.num > 4 {
			return nil
		}
		if err := f.requireType(want); err != nil {
			return err
		}
		switch f.num {
		case 1:
			q.start = int64(f.value)
		case 2:
			q.end = int64(f.value)
		case 3:
			if len(q.matchers) == most {
				return fmt.Errorf("more than %d matchers in a request: use regular expressions or several requests", maxReadMatchers)
			}
			m, err := decodeMatcher(f.bytes, others)
			if err != nil {
				return err
			}
			q.matchers = append(q.matchers, m)
		case 4:
			if q.hints == nil {
				q.hints = new(storage.SelectHints)
			}
			return decodeHints(f.bytes, q.hints)
		}
		return nil
	})
	return q, err
}

func decodeMatcher(b []byte, others *regexps) (*labels.Matcher, error) {
	var typ uint64
	var name, value string
	err := eachField(b, func(f field) error {
		switch f.num {
		case 1:
			typ = f.value
			return f.requireType(protowire.VarintType)
		case 2:
			name = string(f.bytes)
			return f.requireType(protowire.BytesType)
		case 3:
			value = string(f.bytes)
			return f.requireType(protowire.BytesType)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("matcher: %w", err)
	}
	// LabelMatcher.Type has the numbers of labels.MatchType.
	if typ > uint64(labels.MatchNotRegexp) {
		return nil, fmt.Errorf("invalid matcher type %d", typ)
	}
	return others.matcher(labels.MatchType(typ), name, value)
}

func decodeHints(b []byte, h *storage.SelectHints) error {
	err := eachField(b, func(f field) error {
		want := protowire.VarintType
		if f.num == 2 || f.num == 5 {
			want = protowire.BytesType
		}
		if f.num > 7 {
			return nil
		}
		if err := f.requireType(want); err != nil {
			return err
		}
		switch f.num {
		case 1:
			h.Step = int64(f.value)
		case 2:
			h.Func = string(f.bytes)
		case 3:
			h.Start = int64(f.value)
		case 4:
			h.End = int64(f.value)
		case 5:
			h.Grouping = append(h.Grouping, string(f.bytes))
		case 6:
			h.By = f.value != 0
		case 7:
			h.Range = int64(f.value)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("hints: %w", err)
	}
	return nil
}
