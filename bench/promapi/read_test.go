package promapi

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
)

// readBody returns a remote read request in the form of Prometheus' client.
func readBody(t *testing.T, g generator) []byte {
	t.Helper()
	req := &prompb.ReadRequest{}
	switch g.IntN(8) {
	case 0:
	case 1:
		req.AcceptedResponseTypes = []prompb.ReadRequest_ResponseType{7, 9}
	case 2, 3, 4:
		req.AcceptedResponseTypes = []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS, prompb.ReadRequest_SAMPLES}
	default:
		req.AcceptedResponseTypes = []prompb.ReadRequest_ResponseType{prompb.ReadRequest_SAMPLES}
	}
	for range 1 + g.IntN(3) {
		start := int64(g.IntN(lastTime))
		ms := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, labels.MetricName, g.metric())}
		if g.IntN(2) == 0 {
			ms = append(ms, labels.MustNewMatcher(labels.MatchType(g.IntN(4)), "job", g.one("api", "a.*|db", "日本", "")))
		}
		end := start + int64(g.IntN(2_000_000))
		var hints *storage.SelectHints // within the query's range, as clients send them: Prometheus also reads what is outside of it
		if g.IntN(2) == 0 {
			hints = &storage.SelectHints{Start: start, End: min(start+600_000, end), Step: 15_000, Func: g.one("rate", ""), Grouping: []string{"job", "instance"}, By: g.IntN(2) == 0, Range: 300_000}
		}
		q, err := remote.ToQuery(start, end, ms, hints)
		if err != nil {
			t.Fatal(err)
		}
		req.Queries = append(req.Queries, q)
	}
	b, err := req.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return snappy.Encode(nil, b)
}

// TestRemoteReadSameAsPrometheus compares the decoded responses, of samples and of streamed chunks, and for
// chunks also the bytes of the frames.
func TestRemoteReadSameAsPrometheus(t *testing.T) {
	p := newPair(t, 50_000_000)
	g := generator{rand.New(rand.NewPCG(3, 4))}
	post := func(h http.Handler, body []byte) *http.Response {
		r := httptest.NewRequest(http.MethodPost, "http://prometheus/api/v1/read", bytes.NewReader(body))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	count := map[string]int{}
	for i := range 500 {
		body := readBody(t, g)
		if g.IntN(20) == 0 {
			body = body[:g.IntN(len(body))]
		}
		want, got := post(p.theirs, body), post(p.ours, body)
		wantBody, gotBody := readAll(t, want), readAll(t, got)
		kind := want.Header.Get("Content-Type")
		count[fmt.Sprint(want.StatusCode, " ", kind)]++
		if want.StatusCode != http.StatusOK || got.StatusCode != http.StatusOK {
			// A storage's error is 500 in Prometheus; here it has its type, as in other requests. A stream
			// that fails before its first frame is 200 in Prometheus.
			if got.StatusCode < 400 || want.StatusCode == http.StatusBadRequest && got.StatusCode != http.StatusBadRequest {
				t.Errorf("request %d: status %d, want %d: %s", i, got.StatusCode, want.StatusCode, gotBody)
			}
			continue
		}
		if got.Header.Get("Content-Type") != kind || got.Header.Get("Content-Encoding") != want.Header.Get("Content-Encoding") {
			t.Fatalf("request %d: headers %v, want %v", i, got.Header, want.Header)
		}
		if strings.HasPrefix(kind, "application/x-protobuf") {
			wantBody, gotBody = unpack(t, wantBody), unpack(t, gotBody)
			// gogo's encoder drops the sign of -0, so messages are compared after decoding and encoding
			// again.
			var m prompb.ReadResponse
			if err := m.Unmarshal(gotBody); err != nil {
				t.Fatalf("request %d: %v", i, err)
			}
			again, err := m.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			gotBody = again
		}
		if !bytes.Equal(gotBody, wantBody) {
			t.Fatalf("request %d (%s): %d bytes differ from the %d that Prometheus answers", i, kind, len(gotBody), len(wantBody))
		}
	}
	t.Logf("answers: %v", count)
	for _, kind := range []string{"200 application/x-protobuf", "200 application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse"} {
		if count[kind] < 100 {
			t.Errorf("only %d answers of %s", count[kind], kind)
		}
	}
}

func readAll(t *testing.T, r *http.Response) []byte {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unpack(t *testing.T, b []byte) []byte {
	t.Helper()
	out, err := snappy.Decode(nil, b)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
