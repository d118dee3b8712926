package frontend

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/taredb/tare/activeseries"
)

// mergeResponses makes one response of the answers to all parts, to be read with its Body's WriteTo or
// Read, and closed. It reads nothing by itself. Encoding compresses the body; one that is unknown
// does not.
func (x *exchange) mergeResponses(ctx context.Context, responses []*http.Response, encoding string) *http.Response {
	e := Encoding(encoding)
	if e.Validate() != nil {
		e = Identity
	}
	body := &mergedBody{encoding: e, from: &x.f.compressors}
	order := x.order()
	order.Failed = func(err error) bool { return body.failed != nil && body.failed(err) }
	var sources []activeseries.Source
	sources, order.Unique = x.sources(ctx, responses)
	body.Body = x.f.merger.Merge(sources, order)
	h := make(http.Header, 3)
	h.Set("Content-Type", x.request.form.ContentType())
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

// sources are the bodies of responses, as the merge wants them, and whether they may have the same
// series. Where some members count by themselves and others do not, those that do not are counted
// first, each series of theirs once: counts have no duplicates.
func (x *exchange) sources(ctx context.Context, responses []*http.Response) (sources []activeseries.Source, unique bool) {
	sources = make([]activeseries.Source, len(responses))
	names, done := shardNames(len(responses)), x.done
	for i, resp := range responses {
		sources[i] = activeseries.Source{Shard: names[i], Done: done}
		x.setSource(ctx, &sources[i], resp)
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
	order.Form, order.Unique, order.Limit, order.MaxBytes = activeseries.FormJSON, true, 0, 0
	return append(counts, activeseries.Source{
		Shard: "of members that do not count",
		Body:  x.f.merger.Merge(series, order),
		Form:  activeseries.FormJSON, Counts: true,
	}), false
}

// setSource has the body of one response be a source. One that was not asked for here cannot be asked
// for again.
func (x *exchange) setSource(ctx context.Context, s *activeseries.Source, resp *http.Response) {
	s.Body = x.decompressed(resp)
	s.Counts = x.request.countBy != "" && resp.Header.Get(countHeader) == x.request.countBy
	if t := resp.Header.Get("Content-Type"); t != "" && t != jsonType {
		s.Form = formOf(t)
	}
	pb, ok := resp.Body.(*partBody)
	if !ok {
		return
	}
	form := s.Form
	s.Shard = pb.part.name
	s.Reopen = func(why error) (io.ReadCloser, error) {
		again, err := x.askAgain(ctx, pb.part, why)
		if err != nil {
			return nil, err
		}
		if formOf(again.Header.Get("Content-Type")) != form || again.Header.Get(countHeader) != resp.Header.Get(countHeader) {
			again.Body.Close()
			return nil, why // a replica that answers in another way is another version
		}
		return x.decompressed(again), nil
	}
}

// done counts what a body had.
func (x *exchange) done(items, bytes int64, _ error) {
	x.itemsIn.Add(items)
	x.bytesIn.Add(bytes)
}

// order is what is to be made of the bodies.
func (x *exchange) order() activeseries.Order {
	o := activeseries.Order{
		Decoder:     x.decoding.By,
		Form:        x.request.form,
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
		o.Compare = x.f.differ
	}
	return o
}

// A mergedBody is a merged answer, compressed.
type mergedBody struct {
	*activeseries.Body
	encoding Encoding
	from     *compressors
	failed   func(error) bool // asked for what to do about an error; nil when the body is to tell

	unfinished bool // failed has answered: the body ends where it is

	// Of Read:
	z       resetWriter
	release func()
	pending bytes.Buffer
	raw     []byte
	err     error
}

// WriteTo writes the answer. Its error is the writer's, or that which the answer tells of.
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

// Read reads the answer in the caller's goroutine.
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

// Close ends the answer and closes all bodies.
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

// A countingWriter counts what it passes on.
type countingWriter struct {
	w     io.Writer
	bytes int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.bytes += int64(n)
	return n, err
}
