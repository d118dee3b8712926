package storegateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"

	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/storegateway"
)

// A readStream is a streamed remote read in progress. Its frames have their length as a varint, and a checksum.
type readStream struct {
	t     *testing.T
	body  *bufio.Reader
	frame prompb.ChunkedReadResponse
	err   error
}

// readStreamed starts a streamed remote read of the series that match.
func readStreamed(t *testing.T, base string, m *prompb.LabelMatcher) (*readStream, error) {
	t.Helper()
	body, err := (&prompb.ReadRequest{
		Queries:               []*prompb.Query{{EndTimestampMs: 1 << 60, Matchers: []*prompb.LabelMatcher{m}}},
		AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS},
	}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/api/v1/read", bytes.NewReader(snappy.Encode(nil, body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("X-Prometheus-Remote-Read-Version", "0.1.0")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %s", resp.Status)
	}
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/x-streamed-protobuf") {
		t.Fatalf("the response is %q", kind)
	}
	return &readStream{t: t, body: bufio.NewReader(resp.Body)}, nil
}

// next reads a frame. It returns false at the end of the stream, and at an error, which includes an end within a frame.
func (s *readStream) next() bool {
	size, err := binary.ReadUvarint(s.body)
	if errors.Is(err, io.EOF) { // between frames; within a chunk of the body it is an io.ErrUnexpectedEOF
		return false
	}
	frame := make([]byte, 4+min(size, 50<<20))
	if err == nil {
		_, err = io.ReadFull(s.body, frame)
	}
	if s.err = err; err != nil {
		return false
	}
	if sum := binary.BigEndian.Uint32(frame); crc32.Checksum(frame[4:], crc32.MakeTable(crc32.Castagnoli)) != sum {
		s.t.Fatalf("a frame of %d bytes has a wrong checksum", size)
	}
	s.frame = prompb.ChunkedReadResponse{}
	s.err = s.frame.Unmarshal(frame[4:])
	return s.err == nil
}

// appendTo appends the rest of the stream as text and returns its error.
func (s *readStream) appendTo(text *strings.Builder) error {
	for s.next() {
		for _, series := range s.frame.ChunkedSeries {
			fmt.Fprintln(text, series.Labels)
			for _, c := range series.Chunks {
				fmt.Fprintln(text, c.MinTimeMs, c.MaxTimeMs, c.Type, string(c.Data))
			}
		}
	}
	return s.err
}

// TestTruncatedReadFailingBucket fails each call of the bucket during a streamed remote read, the first and then
// all, with a missing object, as when a block was deleted midway, and with a permanent error. The client
// gets the complete series or an error, although the status of the response is 200.
func TestTruncatedReadFailingBucket(t *testing.T) {
	b := newBrokenBlock(t)
	named := &prompb.LabelMatcher{Type: prompb.LabelMatcher_RE, Name: "__name__", Value: ".+"}
	var want strings.Builder
	set, err := readStreamed(t, newHTTPServer(t, newFaultGateway(t, b.bucket(t, nil)).Gateway, nil), named)
	if err != nil {
		t.Fatal(err)
	}
	if err := set.appendTo(&want); err != nil || want.Len() < 10_000 {
		t.Fatalf("a complete read: %d bytes, %v", want.Len(), err)
	}
	for _, how := range []testbucket.Failure{testbucket.FailMissing, testbucket.FailDenied} {
		truncated := 0
		for call := 0; ; call++ {
			bucket := b.bucket(t, nil)
			base := newHTTPServer(t, newFaultGateway(t, bucket).Gateway, nil)
			bucket.FailCall(call, testbucket.FailRule{Times: -1, How: how})
			var got strings.Builder
			set, err := readStreamed(t, base, named)
			if err == nil {
				err = set.appendTo(&got)
			}
			switch {
			case err == nil && got.String() != want.String():
				t.Fatalf("%s, call %d: %d bytes of %d look complete", how, call, got.Len(), want.Len())
			case err != nil && got.Len() > 0:
				truncated++
			}
			if bucket.Fired.Load() == 0 {
				t.Logf("%s: %d calls, %d truncated responses", how, call, truncated)
				break
			}
		}
		if truncated == 0 {
			t.Errorf("%s: no response was truncated midway", how)
		}
	}
}

// TestTruncatedReadStalled lets a client stop reading after the first series of a stream, until the server
// has cut it or closed all connections. When it reads on, it gets an error.
func TestTruncatedReadStalled(t *testing.T) {
	g := slowStore(t)
	for _, name := range []string{"write deadline", "closed connections"} {
		t.Run(name, func(t *testing.T) {
			limit := time.Hour
			if name == "write deadline" {
				limit = 50 * time.Millisecond
			}
			api, server := slowHTTPServer(t, g, storegateway.HTTPOptions{WriteTimeout: limit})
			var set *readStream
			// On a busy machine the server may cut the client before it has sent anything.
			testwait.UntilState(t, "the first series of a stream", func() (string, bool) {
				var err error
				set, err = readStreamed(t, server.URL, &prompb.LabelMatcher{Name: "foo", Value: "bar"})
				if err != nil {
					return err.Error(), false
				}
				return "no series", set.next()
			})
			if limit < time.Hour {
				testwait.Until(t, "the server to cut the client", func() bool { return api.Responses().Cut > 0 && g.Gate().Stats().Running == 0 })
			} else {
				server.CloseClientConnections()
			}
			series := 1
			for set.next() {
				series++
			}
			if err := set.err; err == nil || series >= 60 {
				t.Errorf("%d series of a stream that was cut, %v", series, err)
			} else {
				t.Logf("after %d series: %v", series, err)
			}
		})
	}
}
