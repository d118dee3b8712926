package promapi

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"

	"github.com/taredb/tare/internal/alloctest"
)

// A decoded is a ReadRequest in a comparable form.
type decoded struct {
	Accepts []uint64
	Queries []decodedQuery
}

type decodedQuery struct {
	Start, End int64
	Matchers   []string
	Hints      *storage.SelectHints
}

func ownDecoded(r *readRequest) decoded {
	d := decoded{Accepts: r.accepts}
	for _, q := range r.queries {
		x := decodedQuery{Start: q.start, End: q.end, Hints: q.hints}
		for _, m := range q.matchers {
			x.Matchers = append(x.Matchers, m.String())
		}
		d.Queries = append(d.Queries, x)
	}
	return d
}

func theirDecoded(t *testing.T, r *prompb.ReadRequest) decoded {
	t.Helper()
	var d decoded
	for _, a := range r.AcceptedResponseTypes {
		d.Accepts = append(d.Accepts, uint64(int64(a)))
	}
	for _, q := range r.Queries {
		x := decodedQuery{Start: q.StartTimestampMs, End: q.EndTimestampMs}
		for _, m := range q.Matchers {
			lm, err := labels.NewMatcher(labels.MatchType(m.Type), m.Name, m.Value)
			if err != nil {
				t.Fatalf("we took a matcher that Prometheus refuses: %v", err)
			}
			x.Matchers = append(x.Matchers, lm.String())
		}
		if h := q.Hints; h != nil {
			x.Hints = &storage.SelectHints{Start: h.StartMs, End: h.EndMs, Step: h.StepMs, Func: h.Func, Grouping: h.Grouping, By: h.By, Range: h.RangeMs}
		}
		d.Queries = append(d.Queries, x)
	}
	return d
}

// sampleRequest returns a request with every field set.
func sampleRequest(t testing.TB) []byte {
	t.Helper()
	r := prompb.ReadRequest{
		AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{1, 0},
		Queries: []*prompb.Query{
			{StartTimestampMs: -5, EndTimestampMs: 1 << 40, Matchers: []*prompb.LabelMatcher{
				{Name: "a", Value: "b"},
				{Type: prompb.LabelMatcher_NRE, Name: "日", Value: "x.*|y"},
			}},
			{Hints: &prompb.ReadHints{StepMs: 1, Func: "rate", StartMs: 2, EndMs: 3, Grouping: []string{"g", ""}, By: true, RangeMs: 4}},
		},
	}
	b, err := r.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReadRequest(t *testing.T) {
	b := sampleRequest(t)
	got, err := decodeReadRequest(b, new(regexps))
	if err != nil {
		t.Fatal(err)
	}
	var want prompb.ReadRequest
	if err := want.Unmarshal(b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(theirDecoded(t, &want), ownDecoded(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for n := range b {
		if _, err := decodeReadRequest(b[:n], new(regexps)); err == nil {
			// A message that ends between two fields is a valid shorter message.
			var m prompb.ReadRequest
			if m.Unmarshal(b[:n]) != nil {
				t.Errorf("took the first %d of %d bytes, which Prometheus refuses", n, len(b))
			}
		}
	}
}

// FuzzReadRequest expects Prometheus to accept every accepted request with the same meaning.
func FuzzReadRequest(f *testing.F) {
	f.Add(sampleRequest(f))
	f.Add([]byte{0x12, 0x02, 0x01, 0x00})       // accepted types, packed
	f.Add([]byte{0x10, 0x01, 0x10, 0x00})       // not packed
	f.Add([]byte{0x0a, 0x02, 0x1a, 0x00})       // an empty matcher
	f.Add([]byte{0x0a, 0x04, 0x22, 0x02, 8, 1}) // hints
	f.Fuzz(func(t *testing.T, b []byte) {
		defer alloctest.Bounded(t, 64<<20)()
		got, err := decodeReadRequest(b, new(regexps))
		if err != nil {
			return
		}
		var want prompb.ReadRequest
		if err := want.Unmarshal(b); err != nil {
			t.Fatalf("Prometheus refuses it: %v", err)
		}
		own := ownDecoded(got)
		for i := range own.Accepts {
			own.Accepts[i] = uint64(int64(int32(own.Accepts[i]))) // an enum has 32 bits there
		}
		if diff := cmp.Diff(theirDecoded(t, &want), own); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
