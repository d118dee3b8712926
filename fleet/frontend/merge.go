package frontend

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/taredb/tare/fleet/activeseries"
)

// mergeResponses returns one response that merges the responses to all parts. The caller reads it by Read or
// by the body's WriteTo, and closes it; nothing is read before. encoding is the compression of the body; an
// unknown one means none.
func (x *exchange) mergeResponses(ctx context.Context, responses []*http.Response, encoding string) *http.Response {
	e := Encoding(encoding)
	if e.validate() != nil {
		e = Identity
	}
	body := &mergedBody{encoding: e, from: &x.f.compressors}
	order := x.order()
	order.Failed = func(err error) bool { return body.failed != nil && body.failed(err) }
	var sources []activeseries.Source
	sources, order.Unique = x.sources(ctx, responses)
	body.Body = x.f.merger.Merge(sources, order)
	h := make(http.Header, 3)
	h.Set("Content-Type", jsonType)
	if e != Identity {
		h.Set("Content-Encoding", string(e))
	}
	if x.request.countBy != "" {
		h.Set(countHeader, x.request.countBy)
	}
	return &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: body, ContentLength: -1,
	}
}

// sources returns the bodies of responses as sources of a merge, and whether several may have the same
// series. If some members count and others do not, the series of the others are deduplicated and counted
// first: counts cannot be deduplicated.
func (x *exchange) sources(ctx context.Context, responses []*http.Response) (sources []activeseries.Source, unique bool) {
	sources = make([]activeseries.Source, len(responses))
	names, done := shardNames(len(responses)), x.done
	for i := range responses {
		sources[i] = activeseries.Source{Shard: names[i], Done: done}
		x.setSource(ctx, &sources[i], &responses[i])
	}
	unique = len(x.f.options.Members) > 1
	if !unique || x.request.countBy == "" {
		return sources, unique
	}
	var counts, series []activeseries.Source
	for i := range responses {
		if sources[i].Counts {
			counts = append(counts, sources[i])
		} else {
			series = append(series, sources[i])
		}
	}
	switch {
	case len(counts) == 0:
		return series, true
	case len(series) == 0:
		return counts, false
	}
	order := x.order()
	order.Unique, order.Limit, order.MaxBytes = true, 0, 0
	return append(counts, activeseries.Source{
		Shard:  "of members that do not count",
		Body:   x.f.merger.Merge(series, order),
		Counts: true,
	}), false
}

// setSource sets a source to the body of one response. A response that was not requested by this exchange
// cannot be requested again; one that is replaces it, for its headers.
func (x *exchange) setSource(ctx context.Context, s *activeseries.Source, response **http.Response) {
	resp := *response
	s.Body = x.decompressed(resp)
	s.Counts = x.request.countBy != "" && resp.Header.Get(countHeader) == x.request.countBy
	pb, ok := resp.Body.(*partBody)
	if !ok {
		return
	}
	s.Shard = pb.part.name
	s.Reopen = func(why error) (io.ReadCloser, error) {
		again, err := x.refetch(ctx, pb.part, why)
		if err != nil {
			return nil, err
		}
		if again.Header.Get(countHeader) != resp.Header.Get(countHeader) {
			again.Body.Close()
			return nil, why // a replica that counts differently runs another version
		}
		again.Body = &partBody{ReadCloser: again.Body, part: pb.part}
		*response = again
		return x.decompressed(again), nil
	}
}

// done counts the items and bytes of a body.
func (x *exchange) done(items, bytes int64, _ error) {
	x.itemsIn.Add(items)
	x.bytesIn.Add(bytes)
}

// order returns the parameters of the merge.
func (x *exchange) order() activeseries.Request {
	o := activeseries.Request{
		Decoder:     x.decoding.By,
		Limit:       x.request.limit,
		UniqueBytes: x.f.options.MergeBytes,
		CountBy:     x.request.countBy,
		CountBytes:  x.f.options.MergeBytes,
		MaxBytes:    x.f.options.ResponseBytes,
	}
	if x.cancel != nil {
		o.Stop = func() { x.cancel(errDone) }
	}
	if x.compare {
		o.Compare = x.f.reportDifference
	}
	return o
}

// A mergedBody is a merged, compressed response.
type mergedBody struct {
	*activeseries.Body
	encoding Encoding
	from     *compressors
	failed   func(error) bool // called with an error; if it is nil, or returns false, the body contains the error

	unfinished bool // failed returned true: the body is cut off

	// Used by Read.
	z       resetWriter
	release func()
	pending bytes.Buffer
	raw     []byte
	err     error
}

// WriteTo writes the response. It returns the writer's error, or the error that the response reports.
func (b *mergedBody) WriteTo(w io.Writer) (int64, error) {
	if b.encoding == Identity {
		return b.Body.WriteTo(w)
	}
	n := &countingWriter{w: w}
	z, release := b.from.writer(b.encoding, n)
	defer release()
	_, err := b.Body.WriteTo(z)
	if b.unfinished {
		return n.bytes, err
	}
	if cerr := z.Close(); err == nil {
		err = cerr
	}
	return n.bytes, err
}

// Read reads the response in the caller's goroutine.
func (b *mergedBody) Read(p []byte) (int, error) {
	if b.encoding == Identity {
		return b.Body.Read(p)
	}
	if b.z == nil && b.err == nil {
		b.z, b.release = b.from.writer(b.encoding, &b.pending)
		b.raw = make([]byte, 32<<10)
	}
	for b.pending.Len() == 0 && b.err == nil {
		n, err := b.Body.Read(b.raw)
		if _, werr := b.z.Write(b.raw[:n]); werr != nil {
			err = werr
		}
		if err == io.EOF { //nolint:errorlint // as io.Reader says
			if cerr := b.z.Close(); cerr != nil {
				err = cerr
			}
		}
		b.err = err
	}
	if b.pending.Len() == 0 {
		return 0, b.err
	}
	return b.pending.Read(p)
}

// Close stops the merge and closes all bodies.
func (b *mergedBody) Close() error {
	if b.z != nil {
		b.release()
		b.z = nil
	}
	if b.err == nil {
		b.err = activeseries.ErrClosed
	}
	return b.Body.Close()
}

// A countingWriter counts the bytes that it writes.
type countingWriter struct {
	w     io.Writer
	bytes int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.bytes += int64(n)
	return n, err
}
