package promapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/promapi"
)

// reads is a storage of n series with points samples each; err follows the last of them.
type reads struct {
	n, points int
	err       error
	warning   string
}

func (s reads) Querier(int64, int64) (storage.Querier, error) { return readsQuerier{s}, nil }

type readsQuerier struct{ reads }

func (q readsQuerier) Select(context.Context, bool, *storage.SelectHints, ...*labels.Matcher) storage.SeriesSet {
	list := make([]storage.Series, q.n)
	for i := range list {
		samples := make([]chunks.Sample, q.points)
		for k := range samples {
			samples[k] = sample{t: int64(k) * 15_000, f: float64(i*k) / 3}
		}
		list[i] = storage.NewListSeries(labels.FromStrings("__name__", "m", "i", itoa(1000+i)), samples)
	}
	s := newSet(list...)
	s.err = q.err
	if q.warning != "" {
		return warned{s, q.warning}
	}
	return s
}

func (readsQuerier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.New("nobody asks for names")
}

func (readsQuerier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.New("nobody asks for values")
}

func (readsQuerier) Close() error { return nil }

// readBody returns a remote read of one query.
func readBody(t testing.TB, accepts ...prompb.ReadRequest_ResponseType) io.Reader {
	t.Helper()
	req := prompb.ReadRequest{
		AcceptedResponseTypes: accepts,
		Queries: []*prompb.Query{{StartTimestampMs: 0, EndTimestampMs: 1e9, Matchers: []*prompb.LabelMatcher{
			{Type: prompb.LabelMatcher_EQ, Name: "__name__", Value: "m"},
		}}},
	}
	b, err := req.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(snappy.Encode(nil, b))
}

// read sends a request over a real connection, since the tests check how responses end.
func read(t *testing.T, o promapi.Options, accepts ...prompb.ReadRequest_ResponseType) (*http.Response, []byte, error) {
	t.Helper()
	server := httptest.NewServer(mustNew(t, o))
	defer server.Close()
	resp, err := server.Client().Post(server.URL+"/api/v1/read", "application/x-protobuf", readBody(t, accepts...))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, body, err
}

// A value is one sample of a response.
type value struct {
	series string
	t      int64
	f      float64
}

func TestReadSamples(t *testing.T) {
	resp, body, err := read(t, promapi.Options{Queryable: reads{n: 3, points: 200, warning: "block\n1 is gone"}})
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v: %s", resp.StatusCode, err, body)
	}
	if got := resp.Header.Get("X-Query-Warnings"); got != "block 1 is gone" {
		t.Errorf("warnings %q", got)
	}
	b, err := snappy.Decode(nil, body)
	if err != nil {
		t.Fatal(err)
	}
	var m prompb.ReadResponse
	if err := m.Unmarshal(b); err != nil {
		t.Fatal(err)
	}
	var got []value
	for _, ts := range m.Results[0].Timeseries {
		for _, s := range ts.Samples {
			got = append(got, value{ts.Labels[1].Value, s.Timestamp, s.Value})
		}
	}
	if diff := cmp.Diff(wantValues(3, 200), got, cmp.AllowUnexported(value{})); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

func wantValues(n, points int) []value {
	var list []value
	for i := range n {
		for k := range points {
			list = append(list, value{itoa(1000 + i), int64(k) * 15_000, float64(i*k) / 3})
		}
	}
	return list
}

// TestReadStreamed uses frames so small that a series takes several of them.
func TestReadStreamed(t *testing.T) {
	o := promapi.Options{Queryable: reads{n: 30, points: 500, warning: "half of it"}, ReadFrame: 500}
	resp, body, err := read(t, o, prompb.ReadRequest_STREAMED_XOR_CHUNKS)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v: %s", resp.StatusCode, err, body)
	}
	if got := resp.Trailer.Get("X-Query-Warnings"); got != "half of it" {
		t.Errorf("warnings %q in the trailer %v", got, resp.Trailer)
	}
	var got []value
	frames := 0
	for len(body) > 0 {
		n, w := binary.Uvarint(body)
		sum := binary.BigEndian.Uint32(body[w:])
		data := body[w+4:][:n]
		if crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) != sum {
			t.Fatalf("frame %d: wrong checksum", frames)
		}
		body = body[w+4+int(n):]
		frames++
		var m prompb.ChunkedReadResponse
		if err := m.Unmarshal(data); err != nil {
			t.Fatal(err)
		}
		for _, c := range m.ChunkedSeries[0].Chunks {
			chunk, err := chunkenc.FromData(chunkenc.Encoding(c.Type), c.Data)
			if err != nil {
				t.Fatal(err)
			}
			it := chunk.Iterator(nil)
			for it.Next() != chunkenc.ValNone {
				ms, f := it.At()
				got = append(got, value{m.ChunkedSeries[0].Labels[1].Value, ms, f})
			}
		}
	}
	if diff := cmp.Diff(wantValues(30, 500), got, cmp.AllowUnexported(value{})); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
	if frames <= 30 {
		t.Errorf("%d frames for 30 series of more than one frame", frames)
	}
}

// TestReadFailures expects errors that a client cannot mistake for a response: a status if no byte was sent,
// otherwise a broken connection.
func TestReadFailures(t *testing.T) {
	fault := errors.New("read chunks: checksum mismatch")
	for _, c := range []struct {
		name    string
		storage reads
		accepts prompb.ReadRequest_ResponseType
		status  int
		text    string
	}{
		{"samples", reads{n: 50, points: 500, err: fault}, prompb.ReadRequest_SAMPLES, 422, "checksum mismatch"},
		{"too many samples", reads{n: 50, points: 5000}, prompb.ReadRequest_SAMPLES, 400, "exceeded sample limit (100000)"},
		{"early", reads{n: 1, points: 5, err: fault}, prompb.ReadRequest_STREAMED_XOR_CHUNKS, 422, "checksum mismatch"},
		{"late", reads{n: 100, points: 2000, err: fault}, prompb.ReadRequest_STREAMED_XOR_CHUNKS, 0, ""},
		{"unknown form", reads{n: 1, points: 1}, 9, 400, "does not support any of the requested response types: [9]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var seen *promapi.Observation
			resp, body, err := read(t, promapi.Options{
				Queryable: c.storage, ReadSamples: 100_000,
				Observe: func(_ context.Context, _ *http.Request, o *promapi.Observation) { seen = o },
			}, c.accepts)
			if c.status == 0 {
				if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("%d bytes ended with %v, want the connection cut", len(body), err)
				}
			} else if resp.StatusCode != c.status || !strings.Contains(string(body), c.text) {
				t.Errorf("status %d: %s, want %d: %s", resp.StatusCode, body, c.status, c.text)
			}
			if seen == nil || seen.Err == nil {
				t.Errorf("the observer saw %+v, want an error", seen)
			}
		})
	}
}

// TestReadOverHTTP10 reads over HTTP/1.0, in which the end of the connection is the end of a stream, so that a
// truncated one would look complete: the response is samples with their length, or an error.
func TestReadOverHTTP10(t *testing.T) {
	server := httptest.NewServer(mustNew(t, promapi.Options{Queryable: reads{n: 30, points: 500}}))
	defer server.Close()
	const chunks, samples = prompb.ReadRequest_STREAMED_XOR_CHUNKS, prompb.ReadRequest_SAMPLES
	for _, c := range []struct {
		accepts []prompb.ReadRequest_ResponseType
		status  int
		text    string // of an error
	}{
		{[]prompb.ReadRequest_ResponseType{chunks, samples}, 200, ""},
		{nil, 200, ""},
		{[]prompb.ReadRequest_ResponseType{chunks}, 400, "use HTTP/1.1"},
		{[]prompb.ReadRequest_ResponseType{9}, 400, "does not support any"},
	} {
		body, err := io.ReadAll(readBody(t, c.accepts...))
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(testwait.Limit)); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "POST /api/v1/read HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != c.status || !strings.Contains(string(got), c.text) {
			t.Errorf("%v: status %d, %v: %.200q, want %d: %s", c.accepts, response.StatusCode, err, got, c.status, c.text)
			continue
		}
		if c.status != http.StatusOK {
			continue
		}
		if response.ContentLength != int64(len(got)) || response.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%v: %d bytes of %s with length %d", c.accepts, len(got), response.Header.Get("Content-Type"), response.ContentLength)
		}
	}
}
