package storegateway_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	configutil "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/storegateway"
)

// readByPrometheus starts a streamed remote read of the series that match with Prometheus' own client.
func readByPrometheus(t *testing.T, base string, m *prompb.LabelMatcher) (storage.SeriesSet, error) {
	t.Helper()
	u, err := url.Parse(base + "/api/v1/read")
	if err != nil {
		t.Fatal(err)
	}
	c, err := remote.NewReadClient("test", &remote.ClientConfig{
		URL: &configutil.URL{URL: u}, Timeout: model.Duration(testwait.Limit), ChunkedReadLimit: 50 << 20,
		HTTPClientConfig:      configutil.HTTPClientConfig{EnableHTTP2: false},
		AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c.Read(t.Context(), &prompb.Query{
		EndTimestampMs: 1 << 60, Matchers: []*prompb.LabelMatcher{m},
	}, true)
}

// appendSeries appends the rest of a set as text and returns the set's error.
func appendSeries(set storage.SeriesSet, text *strings.Builder) error {
	for set.Next() {
		fmt.Fprintln(text, set.At().Labels())
		it := set.At().Iterator(nil)
		for vt := it.Next(); vt != chunkenc.ValNone; vt = it.Next() {
			switch vt {
			case chunkenc.ValFloat:
				at, f := it.At()
				fmt.Fprintln(text, at, f)
			default:
				at, h := it.AtFloatHistogram(nil)
				fmt.Fprintln(text, at, h)
			}
		}
		if it.Err() != nil {
			return it.Err()
		}
	}
	return set.Err()
}

// TestTruncatedReadFailingBucket fails each call of the bucket during a streamed remote read, the first and then
// all, with a missing object, as when a block was deleted midway, and with a permanent error. Prometheus' client
// gets the complete series or an error, although the status of the response is 200.
func TestTruncatedReadFailingBucket(t *testing.T) {
	b := newBrokenBlock(t)
	named := &prompb.LabelMatcher{Type: prompb.LabelMatcher_RE, Name: "__name__", Value: ".+"}
	var want strings.Builder
	set, err := readByPrometheus(t, newHTTPServer(t, newFaultGateway(t, b.bucket(t, nil)).Gateway, nil), named)
	if err != nil {
		t.Fatal(err)
	}
	if err := appendSeries(set, &want); err != nil || want.Len() < 10_000 {
		t.Fatalf("a complete read: %d bytes, %v", want.Len(), err)
	}
	for _, how := range []testbucket.Failure{testbucket.FailMissing, testbucket.FailDenied} {
		truncated := 0
		for call := 0; ; call++ {
			bucket := b.bucket(t, nil)
			base := newHTTPServer(t, newFaultGateway(t, bucket).Gateway, nil)
			bucket.FailCall(call, testbucket.FailRule{Times: -1, How: how})
			var got strings.Builder
			set, err := readByPrometheus(t, base, named)
			if err == nil {
				err = appendSeries(set, &got)
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

// TestTruncatedReadStalled lets Prometheus' client stop reading after the first series of a stream, until the server
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
			var set storage.SeriesSet
			// On a busy machine the server may cut the client before it has sent anything.
			testwait.UntilState(t, "the first series of a stream", func() (string, bool) {
				var err error
				set, err = readByPrometheus(t, server.URL, &prompb.LabelMatcher{Name: "foo", Value: "bar"})
				if err != nil {
					return err.Error(), false
				}
				return "no series", set.Next()
			})
			if limit < time.Hour {
				testwait.Until(t, "the server to cut the client", func() bool { return api.Responses().Cut > 0 && g.Gate().Stats().Running == 0 })
			} else {
				server.CloseClientConnections()
			}
			series := 1
			for set.Next() {
				series++
			}
			if err := set.Err(); err == nil || series >= 60 {
				t.Errorf("%d series of a stream that was cut, %v", series, err)
			} else {
				t.Logf("after %d series: %v", series, err)
			}
		})
	}
}
