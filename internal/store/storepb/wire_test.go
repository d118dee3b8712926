package storepb_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/store/storepb"
)

// A message has both the generated and the reflected forms.
type message interface {
	proto.Message
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}

// golden returns the messages of testdata.
func golden(t testing.TB) (names []string, contents [][]byte) {
	t.Helper()
	text, err := os.ReadFile("testdata/thanos-v0.41.txt")
	if err != nil {
		t.Fatal(err)
	}
	for record := range strings.SplitSeq(string(text), "\n\n") {
		name, digits, _ := strings.Cut(strings.TrimSpace(record), "\n")
		if strings.HasPrefix(name, "#") {
			continue
		}
		b, err := hex.DecodeString(strings.ReplaceAll(digits, "\n", ""))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		names, contents = append(names, name), append(contents, b)
	}
	return names, contents
}

func newMessage(t testing.TB, name string) message {
	t.Helper()
	typ, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return typ.New().Interface().(message)
}

// TestThanosMessages decodes messages encoded by Thanos and encodes them again.
func TestThanosMessages(t *testing.T) {
	names, contents := golden(t)
	if len(names) != 11 {
		t.Fatalf("%d messages in testdata, want 11", len(names))
	}
	for i, name := range names {
		m := newMessage(t, name)
		if err := m.UnmarshalVT(contents[i]); err != nil {
			t.Errorf("message %d, %s: %v", i, name, err)
			continue
		}
		again, err := m.MarshalVT()
		if err != nil || !bytes.Equal(again, contents[i]) {
			t.Errorf("message %d, %s: got %x, %v; Thanos writes %x", i, name, again, err, contents[i])
		}
		known(t, name, m.ProtoReflect())
	}
}

// unknown reports whether m has unknown fields, at any depth.
func unknown(m protoreflect.Message) bool {
	found := len(m.GetUnknown()) > 0
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				found = found || unknown(v.List().Get(i).Message())
			}
		default:
			found = found || unknown(v.Message())
		}
		return !found
	})
	return found
}

// known fails the test for fields that the .proto files of this package lack, at any depth and in hints.
func known(t *testing.T, where string, m protoreflect.Message) {
	t.Helper()
	if u := m.GetUnknown(); len(u) > 0 {
		t.Errorf("%s has unknown fields: %x", where, u)
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		where := where + "." + string(f.Name())
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				known(t, where, v.List().Get(i).Message())
			}
		case f.Message().FullName() == "google.protobuf.Any":
			name := strings.TrimPrefix(v.Message().Interface().(interface{ GetTypeUrl() string }).GetTypeUrl(), "type.googleapis.com/")
			inner := newMessage(t, name)
			if err := inner.UnmarshalVT(v.Message().Interface().(interface{ GetValue() []byte }).GetValue()); err != nil {
				t.Errorf("%s: %v", where, err)
			}
			known(t, where+"."+name, inner.ProtoReflect())
		default:
			known(t, where, v.Message())
		}
		return true
	})
}

// TestSeriesRequestFields checks each field of the request that the golden bytes set.
func TestSeriesRequestFields(t *testing.T) {
	names, contents := golden(t)
	if names[0] != "thanos.SeriesRequest" {
		t.Fatalf("the first message is a %s", names[0])
	}
	r := &storepb.SeriesRequest{}
	if err := r.UnmarshalVT(contents[0]); err != nil {
		t.Fatal(err)
	}
	fields := r.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if !r.ProtoReflect().Has(fields.Get(i)) {
			t.Errorf("%s is not set", fields.Get(i).Name())
		}
	}
	if r.MinTime != -5 || r.MaxTime != 1700000000000 || r.Limit != 7 || r.ResponseBatchSize != 64 || !r.SkipChunks {
		t.Errorf("got %v", r)
	}
	if m := r.Matchers[3]; m.Type != storepb.LabelMatcher_NRE || m.Name != "c" || m.Value != ".*" {
		t.Errorf("the last matcher is %v", m)
	}
	if s := r.ShardInfo; s.ShardIndex != 2 || s.TotalShards != 5 || !s.By || len(s.Labels) != 2 {
		t.Errorf("the shard is %v", s)
	}
}

// FuzzRequests decodes arbitrary bytes as each request: the generated code agrees with protobuf's reflection,
// and its encoding decodes to the same message. A field of a wrong wire type is unknown to protobuf, and
// rejected by the generated code, as by Thanos'.
func FuzzRequests(f *testing.F) {
	requests := []string{
		"thanos.SeriesRequest", "thanos.LabelNamesRequest", "thanos.LabelValuesRequest", "thanos.info.InfoRequest",
		"hintspb.SeriesRequestHints", "hintspb.LabelNamesRequestHints", "hintspb.LabelValuesRequestHints",
	}
	_, contents := golden(f)
	for i := range requests {
		for _, b := range contents {
			f.Add(uint8(i), b)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		defer alloctest.Bounded(t, 64<<20)()
		name := requests[int(which)%len(requests)]
		ours, oracle := newMessage(t, name), newMessage(t, name)
		oursErr, oracleErr := ours.UnmarshalVT(b), proto.Unmarshal(b, oracle)
		if oracleErr == nil && !unknown(oracle.ProtoReflect()) && (oursErr != nil || !proto.Equal(ours, oracle)) {
			t.Fatalf("%s %x: got %v, %v; protobuf reads %v", name, b, ours, oursErr, oracle)
		}
		if oursErr != nil {
			return
		}
		written, err := ours.MarshalVT()
		if err != nil {
			t.Fatalf("%s %x: marshal: %v", name, b, err)
		}
		again := newMessage(t, name)
		if err := again.UnmarshalVT(written); err != nil {
			t.Fatalf("%s %x: read back: %v", name, written, err)
		}
		if twice, err := again.MarshalVT(); err != nil || !bytes.Equal(twice, written) {
			t.Fatalf("%s %x: written again it is %x, %v", name, written, twice, err)
		}
	})
}
