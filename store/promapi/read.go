package promapi

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// warningsHeader is the header of a remote read's warnings, for which its body has no field. In a streamed
// response it is a trailer.
const warningsHeader = "X-Query-Warnings"

// remoteRead serves Prometheus' remote read protocol, version 1: the request is a snappy block of a
// ReadRequest, the response has the first supported form that the client accepts.
func (c *call) remoteRead() *Error {
	c.plain = true
	c.out.accept = identity // the protocol has its own compression
	req, err := c.read, error(nil)
	if req == nil {
		req, err = c.readRequest()
		c.read = req
	}
	if e, ok := errors.AsType[*Error](err); ok { // the queue of those with large regular expressions
		return e
	}
	if err != nil {
		return c.badBody(err)
	}
	streamed, err := req.streamed(c.r.ProtoAtLeast(1, 1))
	if err != nil {
		return badData(err)
	}
	for i, q := range req.queries {
		if i == 0 || q.start < c.seen.Start.UnixMilli() {
			c.seen.Start = msTime(q.start)
		}
		if i == 0 || q.end > c.seen.End.UnixMilli() {
			c.seen.End = msTime(q.end)
		}
		for _, m := range q.matchers {
			c.seen.Matchers = append(c.seen.Matchers, m.String())
		}
	}
	return c.admitted(nil, func() *Error {
		read := c.readSamples
		if streamed {
			read = c.readStreamed
		}
		if err := read(req); err != nil {
			return c.api.classify(err)
		}
		return nil
	})
}

// readRequest reads and decodes the body. One that is too long after decompression is refused by its first bytes.
func (c *call) readRequest() (*readRequest, error) {
	body := bufio.NewReader(c.r.Body)
	first, err := body.Peek(binary.MaxVarintLen64)
	if err != nil && err != io.EOF { //nolint:errorlint // as io.Reader says
		return nil, fmt.Errorf("read the request: %w", err)
	}
	n, err := snappy.DecodedLen(first)
	if err != nil {
		return nil, fmt.Errorf("decompress the request: %w", err)
	}
	if int64(n) > c.api.o.MaxBody {
		return nil, fmt.Errorf("decompress the request: %d bytes, at most %d", n, c.api.o.MaxBody)
	}
	packed, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	b, err := snappy.Decode(nil, packed)
	if err != nil {
		return nil, fmt.Errorf("decompress the request: %w", err)
	}
	return decodeReadRequest(b, c.newRegexps())
}

// A sampleBody is the body of a remote read of samples, before compression.
type sampleBody struct {
	call  *call
	whole []byte // results of queries

	result     []byte // result of one query
	scratch    []byte // labels and floats of one series
	histograms []byte // histograms of that series
	samples    int    // samples of the query
}

func (b *sampleBody) size() int {
	return len(b.whole) + len(b.result) + len(b.scratch) + len(b.histograms)
}

// room returns the capacity of the body's buffers.
func (b *sampleBody) room() int {
	return cap(b.whole) + cap(b.result) + cap(b.scratch) + cap(b.histograms)
}

// appendQuery appends the series of a query.
func (b *sampleBody) appendQuery(set storage.SeriesSet) error {
	c := b.call
	var it chunkenc.Iterator
	for set.Next() {
		s := set.At()
		b.scratch, b.histograms = appendProtoLabels(b.scratch[:0], s.Labels()), b.histograms[:0]
		it = s.Iterator(it)
		if err := b.readSeries(it); err != nil {
			return err
		}
		b.result = appendProtoBytes(b.result, 1, len(b.scratch)+len(b.histograms))
		b.result = append(b.result, b.scratch...)
		b.result = append(b.result, b.histograms...)
		c.seen.Series++
		if err := c.reserveBuffer(b.room()); err != nil {
			return err
		}
	}
	c.seen.Samples += int64(b.samples)
	return set.Err()
}

// readSeries encodes the samples of a series.
func (b *sampleBody) readSeries(it chunkenc.Iterator) error {
	o := &b.call.api.o
	for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
		b.samples++
		if b.samples > o.ReadSamples {
			return &Error{Type: BadData, Err: fmt.Errorf("exceeded sample limit (%d)", o.ReadSamples)}
		}
		switch vt {
		case chunkenc.ValFloat:
			t, f := it.At()
			b.scratch = appendProtoSample(b.scratch, t, f)
		case chunkenc.ValHistogram:
			t, h := it.AtHistogram(nil)
			b.histograms = AppendHistogram(b.histograms, 4, t, h)
		case chunkenc.ValFloatHistogram:
			t, h := it.AtFloatHistogram(nil)
			b.histograms = AppendFloatHistogram(b.histograms, 4, t, h)
		}
		if int64(b.size()) > o.MaxResponse {
			return b.call.tooLarge()
		}
	}
	return it.Err()
}

// readSamples responds with samples in one snappy block, which must be complete before its first byte is
// sent.
func (c *call) readSamples(req *readRequest) error {
	b := &sampleBody{call: c}
	var notes annotations.Annotations
	for i := range req.queries {
		b.result, b.samples = b.result[:0], 0
		err := c.readQuery(&req.queries[i], func(q storage.Querier, r *readQuery) (annotations.Annotations, error) {
			set := q.Select(c.ctx, false, r.selectHints(), r.matchers...)
			if err := b.appendQuery(set); err != nil {
				return nil, err
			}
			return set.Warnings(), nil
		}, &notes)
		if err != nil {
			return err
		}
		b.whole = appendProtoBytes(b.whole, 1, len(b.result))
		b.whole = append(b.whole, b.result...)
	}
	if err := c.reserveBuffer(b.room() + snappy.MaxEncodedLen(len(b.whole))); err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/x-protobuf")
	h.Set("Content-Encoding", "snappy")
	c.recordWarnings(notes)
	c.out.buf = snappy.Encode(c.out.buf[:cap(c.out.buf)], b.whole)
	c.out.whole = true
	return nil
}

// readStreamed responds with the stored chunks, in frames of at most one series.
func (c *call) readStreamed(req *readRequest) error {
	c.w.Header().Set("Content-Type", "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse")
	var notes annotations.Annotations
	c.out.stream = true
	var f frame
	for i := range req.queries {
		f.query = i
		if err := c.readChunks(&req.queries[i], func(set storage.ChunkSeriesSet) error {
			return c.stream(&f, set)
		}, &notes); err != nil {
			return err
		}
	}
	c.recordWarnings(notes)
	return nil
}

// stream sends the series of one query.
func (c *call) stream(f *frame, set storage.ChunkSeriesSet) error {
	var it chunks.Iterator
	for set.Next() {
		s := set.At()
		f.reset(s.Labels(), c.api.o.ReadFrame)
		c.seen.Series++
		it = s.Iterator(it)
		for more := it.Next(); more; {
			m := it.At()
			if m.Chunk == nil {
				return errors.New("BUG: the storage returned a chunk without data")
			}
			c.seen.Samples += int64(m.Chunk.NumSamples())
			f.add(m)
			more = it.Next()
			if f.room > 0 && more {
				continue
			}
			c.out.buf = f.appendTo(c.out.buf)
			if err := c.reserveBuffer(cap(c.out.buf) + cap(f.chunks)); err != nil {
				return err
			}
			if len(c.out.buf) >= flushAt {
				c.out.buf = c.out.spill(c.out.buf)
				if c.out.err != nil {
					return c.out.err
				}
			}
		}
		if err := it.Err(); err != nil {
			return err
		}
	}
	return set.Err()
}

// readQuery opens a querier for a query, calls ask and closes the querier.
func (c *call) readQuery(r *readQuery, ask func(storage.Querier, *readQuery) (annotations.Annotations, error), notes *annotations.Annotations) error {
	q, err := c.api.o.Queryable.Querier(r.start, r.end)
	if err != nil {
		return err
	}
	defer c.close(q)
	theirs, err := ask(q, r)
	notes.Merge(theirs)
	return err
}

// readChunks does the same for chunks. The samples of a storage without chunks are encoded.
func (c *call) readChunks(r *readQuery, ask func(storage.ChunkSeriesSet) error, notes *annotations.Annotations) error {
	if c.api.o.ChunkQueryable == nil {
		return c.readQuery(r, func(q storage.Querier, r *readQuery) (annotations.Annotations, error) {
			set := q.Select(c.ctx, true, r.selectHints(), r.matchers...)
			err := ask(storage.NewSeriesSetToChunkSet(set))
			return set.Warnings(), err
		}, notes)
	}
	q, err := c.api.o.ChunkQueryable.ChunkQuerier(r.start, r.end)
	if err != nil {
		return err
	}
	defer c.close(q)
	set := q.Select(c.ctx, true, r.selectHints(), r.matchers...) // the protocol requires sorted series
	err = ask(set)
	notes.Merge(set.Warnings())
	return err
}

// recordWarnings records warnings and sets the warnings header.
func (c *call) recordWarnings(notes annotations.Annotations) {
	c.seen.Warnings, c.seen.Infos = sortedNotes(notes, "")
	if len(c.seen.Warnings) == 0 {
		return
	}
	name := warningsHeader
	if c.out.sent {
		name = http.TrailerPrefix + name
	}
	oneLine := strings.NewReplacer("\r", " ", "\n", " ")
	c.w.Header().Set(name, oneLine.Replace(strings.Join(c.seen.Warnings, "; ")))
}
