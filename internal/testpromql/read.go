package testpromql

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"net/http"
	"regexp"
	"strings"

	"github.com/golang/snappy"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// A ReadRequest is a remote read.
type ReadRequest struct{ prompb.ReadRequest }

// String returns the request as protobuf's text.
func (r *ReadRequest) String() string { return r.ReadRequest.String() }

// Read returns a remote read with matchers, hints and forms of all kinds. Hints do not extend beyond the time
// range of their query: Prometheus then returns more samples, to the boundaries of its blocks. Nor do they
// name the function "series", for which Prometheus returns no samples.
func (g *Generator) Read() *ReadRequest {
	r := &ReadRequest{}
	for range 1 + g.rand.IntN(3) {
		r.Queries = append(r.Queries, g.readQuery())
	}
	const samples, chunks = prompb.ReadRequest_SAMPLES, prompb.ReadRequest_STREAMED_XOR_CHUNKS
	type forms = []prompb.ReadRequest_ResponseType
	r.AcceptedResponseTypes = pick(g.rand, forms(nil), forms{samples}, forms{chunks}, forms{chunks, samples}, forms{samples, chunks}, forms{7, chunks}, forms{7})
	return r
}

func (g *Generator) readQuery() *prompb.Query {
	start := g.Time()
	q := &prompb.Query{StartTimestampMs: start, EndTimestampMs: start + g.rand.Int64N(g.end-g.start)}
	switch g.rand.IntN(12) {
	case 0:
		q.StartTimestampMs, q.EndTimestampMs = math.MinInt64, math.MaxInt64
	case 1:
		q.EndTimestampMs = q.StartTimestampMs
	case 2:
		q.StartTimestampMs, q.EndTimestampMs = q.EndTimestampMs, q.StartTimestampMs-1
		q.Matchers = append(q.Matchers, g.readMatcher())
		return q // with hints, Prometheus selects by them
	}
	q.Matchers = append(q.Matchers, &prompb.LabelMatcher{
		Type: pick(g.rand, prompb.LabelMatcher_EQ, prompb.LabelMatcher_EQ, prompb.LabelMatcher_RE), Name: model.MetricNameLabel,
		Value: pick(g.rand, "metric_0", "metric_1", g.series[g.rand.IntN(len(g.series))].Get(model.MetricNameLabel)),
	})
	for range g.rand.IntN(3) {
		q.Matchers = append(q.Matchers, g.readMatcher())
	}
	if g.rand.IntN(8) == 0 {
		q.Matchers = q.Matchers[1:] // without a metric, or for everything
	}
	if g.rand.IntN(3) == 0 {
		return q
	}
	q.Hints = &prompb.ReadHints{
		StepMs: pick[int64](g.rand, 0, 1, 15_000, 60_000, -5), RangeMs: pick[int64](g.rand, 0, 300_000, -1),
		Func: pick(g.rand, "", "rate", "sum", "count_over_time", "nonsense"), By: g.rand.IntN(2) == 0,
		StartMs: q.StartTimestampMs, EndMs: q.EndTimestampMs,
	}
	if g.rand.IntN(2) == 0 {
		q.Hints.Grouping = []string{"job", "zone"}
	}
	switch g.rand.IntN(6) {
	case 0:
		q.Hints.StartMs, q.Hints.EndMs = 0, 0
	case 1: // within
		q.Hints.StartMs, q.Hints.EndMs = q.StartTimestampMs, min(q.StartTimestampMs+60_000, q.EndTimestampMs)
	}
	return q
}

func (g *Generator) readMatcher() *prompb.LabelMatcher {
	name, value := g.label()
	m := &prompb.LabelMatcher{Name: name, Value: value, Type: pick(g.rand, prompb.LabelMatcher_EQ, prompb.LabelMatcher_NEQ, prompb.LabelMatcher_RE, prompb.LabelMatcher_NRE)}
	if m.Type == prompb.LabelMatcher_RE || m.Type == prompb.LabelMatcher_NRE {
		m.Value = pick(g.rand, regexp.QuoteMeta(value), ".*", ".+", "", "[a-m].*", "(api|db)")
	}
	return m
}

// Do implements Probe. The body of a successful response is its decoded samples, regardless of their split into
// frames and chunks.
func (r *ReadRequest) Do(ctx context.Context, client *http.Client, base string) Response {
	b, err := r.Marshal()
	if err != nil {
		return Response{Err: err}
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/api/v1/read", bytes.NewReader(snappy.Encode(nil, b)))
	if err != nil {
		return Response{Err: err}
	}
	q.Header.Set("Content-Type", "application/x-protobuf")
	q.Header.Set("Content-Encoding", "snappy")
	q.Header.Set("X-Prometheus-Remote-Read-Version", "0.1.0")
	response, text, err := exchange(client, q)
	if err != nil {
		return Response{Err: err}
	}
	got := Response{Code: response.StatusCode, Kind: response.Header.Get("Content-Type"), Body: string(text)}
	if got.Code != http.StatusOK {
		return got
	}
	const warnings = "X-Query-Warnings"
	got.Warnings = response.Header.Get(warnings) + response.Trailer.Get(warnings)
	if got.Body, err = decode(got.Kind, text); err != nil {
		return Response{Err: fmt.Errorf("decode a remote read: %w", err)}
	}
	return got
}

// decode returns a response as text.
func decode(kind string, body []byte) (string, error) {
	if strings.HasPrefix(kind, "application/x-streamed-protobuf") {
		return decodeStream(body)
	}
	plain, err := snappy.Decode(nil, body)
	if err != nil {
		return "", err
	}
	var response prompb.ReadResponse
	if err := response.Unmarshal(plain); err != nil {
		return "", err
	}
	var b strings.Builder
	for i, result := range response.Results {
		for _, s := range result.Timeseries {
			fmt.Fprintf(&b, "%d %v\n", i, s.Labels)
			for _, sample := range s.Samples {
				v := sample.Value
				if v == 0 {
					v = 0 // Prometheus drops the sign of -0
				}
				fmt.Fprintf(&b, "%d=%x ", sample.Timestamp, math.Float64bits(v))
			}
			for _, h := range s.Histograms {
				fmt.Fprintf(&b, "%s ", h.String())
			}
			b.WriteByte('\n')
		}
	}
	return b.String(), nil
}

// decodeStream decodes frames: the length as a varint, the CRC32C with its high byte first, the message.
func decodeStream(body []byte) (string, error) {
	var b strings.Builder
	last := ""
	for len(body) > 0 {
		size, n := binary.Uvarint(body)
		if n <= 0 || uint64(len(body)-n) < size+4 {
			return "", io.ErrUnexpectedEOF
		}
		sum, message := binary.BigEndian.Uint32(body[n:]), body[n+4:n+4+int(size)]
		body = body[n+4+int(size):]
		if crc32.Checksum(message, crc32.MakeTable(crc32.Castagnoli)) != sum {
			return "", errors.New("a frame has a checksum mismatch")
		}
		var frame prompb.ChunkedReadResponse
		if err := frame.Unmarshal(message); err != nil {
			return "", err
		}
		for _, s := range frame.ChunkedSeries {
			if name := fmt.Sprintf("\n%d %v\n", frame.QueryIndex, s.Labels); name != last {
				b.WriteString(name)
				last = name
			}
			for _, c := range s.Chunks {
				if err := appendChunk(&b, c); err != nil {
					return "", err
				}
			}
		}
	}
	return b.String(), nil
}

func appendChunk(b *strings.Builder, c prompb.Chunk) error {
	chunk, err := chunkenc.FromData(chunkenc.Encoding(c.Type), c.Data)
	if err != nil {
		return err
	}
	it := chunk.Iterator(nil)
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		switch kind {
		case chunkenc.ValFloat:
			t, v := it.At()
			fmt.Fprintf(b, "%d=%x ", t, math.Float64bits(v))
		case chunkenc.ValHistogram:
			t, h := it.AtHistogram(nil)
			fmt.Fprintf(b, "%d=%s ", t, h)
		case chunkenc.ValFloatHistogram:
			t, h := it.AtFloatHistogram(nil)
			fmt.Fprintf(b, "%d=%s ", t, h)
		}
	}
	return it.Err()
}
