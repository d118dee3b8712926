package storeapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// A tape is a stream that keeps sent messages like a transport: first by reference, and as bytes once a few
// more were sent.
type tape struct {
	grpc.ServerStream
	waiting  []mem.BufferSlice
	behind   int // number of messages kept by reference
	messages [][]byte
	fail     error

	writer *seriesWriter // nil: frames are not checked
	out    []*frame      // frames of the messages kept by reference
	most   int           // most frames in use at once
}

// Context is called by a writer that waits for its frame to be sent. It sends the frame.
func (t *tape) Context() context.Context {
	for len(t.waiting) > 0 {
		t.take()
	}
	return context.Background()
}

func (t *tape) SendMsg(m any) error {
	if t.fail != nil {
		return t.fail
	}
	data, err := codec{}.Marshal(m)
	if err != nil {
		return err
	}
	t.waiting = append(t.waiting, data)
	if t.writer != nil {
		t.out = append(t.out, t.writer.f)
		different := make(map[*frame]bool)
		for _, f := range t.out {
			different[f] = true
		}
		t.most = max(t.most, len(different))
	}
	if len(t.waiting) > t.behind {
		t.take()
	}
	return nil
}

func (t *tape) take() {
	t.messages = append(t.messages, t.waiting[0].Materialize())
	t.waiting[0].Free()
	t.waiting = t.waiting[1:]
	if t.writer != nil {
		t.out = t.out[1:]
	}
}

// responses returns all messages, decoded by the generated code.
func (t *tape) responses(tb testing.TB) []*storepb.SeriesResponse {
	tb.Helper()
	for len(t.waiting) > 0 {
		t.take()
	}
	var out []*storepb.SeriesResponse
	for i, b := range t.messages {
		r := &storepb.SeriesResponse{}
		if err := r.UnmarshalVT(b); err != nil {
			tb.Fatalf("message %d of %d bytes: %v", i, len(b), err)
		}
		// The encoding equals that of the generated code, byte for byte.
		again, err := r.MarshalVT()
		if err != nil {
			tb.Fatal(err)
		}
		if !bytes.Equal(again, b) {
			tb.Fatalf("message %d: got %x, the generated code writes %x", i, b, again)
		}
		out = append(out, r)
	}
	return out
}

// A madeSeries is a series for tests.
type madeSeries struct {
	labels []tsblock.Label
	chunks []storegateway.ChunkView
}

func makeSeries(r *rand.Rand, n, mostChunks, mostBytes int) []madeSeries {
	series := make([]madeSeries, n)
	for i := range series {
		s := &series[i]
		s.labels = []tsblock.Label{{Name: "__name__", Value: "m"}, {Name: "i", Value: fmt.Sprintf("%07d", i)}, {Name: "pod", Value: strings.Repeat("x", r.IntN(60)+1)}}
		at := int64(r.IntN(2000)) - 1000
		for range r.IntN(mostChunks + 1) {
			c := storegateway.ChunkView{MinTime: at, MaxTime: at + 120, Encoding: byte(1 + r.IntN(3)), Data: make([]byte, r.IntN(mostBytes+1))}
			for k := range c.Data {
				c.Data[k] = byte(k) ^ byte(at)
			}
			s.chunks = append(s.chunks, c)
			at += 121
		}
	}
	return series
}

// asMessage returns the series as a StoreAPI message, for comparison.
func asMessage(s madeSeries) *storepb.Series {
	m := &storepb.Series{}
	for _, l := range s.labels {
		m.Labels = append(m.Labels, &storepb.Label{Name: l.Name, Value: l.Value})
	}
	for _, c := range s.chunks {
		var data []byte // empty bytes are decoded as nil
		if len(c.Data) > 0 {
			data = c.Data
		}
		m.Chunks = append(m.Chunks, &storepb.AggrChunk{MinTime: c.MinTime, MaxTime: c.MaxTime, Raw: &storepb.Chunk{Type: storepb.Chunk_Encoding(c.Encoding - 1), Data: data}})
	}
	return m
}

// seriesOf returns the series of the messages, with the parts of each joined.
func seriesOf(tb testing.TB, rs []*storepb.SeriesResponse, batch int) []*storepb.Series {
	tb.Helper()
	var out []*storepb.Series
	for i, r := range rs {
		parts := r.GetBatch().GetSeries()
		switch {
		case batch > 1 && (len(parts) == 0 || len(parts) > batch):
			tb.Fatalf("message %d has %d series, the batch is %d", i, len(parts), batch)
		case batch <= 1 && r.GetSeries() == nil:
			tb.Fatalf("message %d: want one series, got %v", i, r)
		case batch <= 1:
			parts = []*storepb.Series{r.GetSeries()}
		}
		for _, s := range parts {
			if last := len(out) - 1; last >= 0 && sameLabels(out[last], s) {
				out[last].Chunks = append(out[last].Chunks, s.Chunks...)
				continue
			}
			out = append(out, s)
		}
	}
	return out
}

func sameLabels(a, b *storepb.Series) bool {
	if len(a.Labels) != len(b.Labels) {
		return false
	}
	for i := range a.Labels {
		if a.Labels[i].Name != b.Labels[i].Name || a.Labels[i].Value != b.Labels[i].Value {
			return false
		}
	}
	return true
}

func testQuota(tb testing.TB, bytes int64) *slab.Quota {
	tb.Helper()
	q, err := slab.NewGate(slab.GateOptions{Bytes: bytes, PerQuery: bytes}).Admit(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return q
}

// TestSeriesWriter sends random series in messages of one and of several series, while some messages still
// wait for the transport: the received series equal the sent ones, and each message equals the encoding of
// the generated code.
func TestSeriesWriter(t *testing.T) {
	for _, shape := range []struct {
		name                        string
		series, mostChunks, mostLen int
	}{
		{"small", 1000, 2, 40},
		{"ordinary", 100, 50, 1000},
		{"long series", 3, 3000, 1000},
		{"large chunks", 12, 4, 400_000},
		{"no chunks", 500, 0, 0},
	} {
		for _, batch := range []int{0, 1, 2, 64, 100_000} {
			for _, behind := range []int{0, 5} {
				t.Run(fmt.Sprintf("%s/batch %d/%d wait", shape.name, batch, behind), func(t *testing.T) {
					r := rand.New(rand.NewPCG(1, uint64(batch)))
					made := makeSeries(r, shape.series, shape.mostChunks, shape.mostLen)
					stream := &tape{behind: behind}
					quota := testQuota(t, 16<<20)
					w, err := newSeriesWriter(stream, newFramePool(), quota, batch, nil)
					if err != nil {
						t.Fatal(err)
					}
					stream.writer = w
					for _, s := range made {
						if err := w.write(s.labels, s.chunks); err != nil {
							t.Fatal(err)
						}
					}
					if err := w.flush(); err != nil {
						t.Fatal(err)
					}
					if err := w.drain(); err != nil {
						t.Fatal(err)
					}
					if len(stream.waiting) > 0 || stream.most > 1 {
						t.Errorf("%d messages wait after drain, %d frames were out at once", len(stream.waiting), stream.most)
					}
					w.close()
					quota.Close()
					got := seriesOf(t, stream.responses(t), batch)
					if len(got) != len(made) || w.series != uint64(len(made)) {
						t.Fatalf("got %d series, counted %d, want %d", len(got), w.series, len(made))
					}
					for i := range got {
						if want := asMessage(made[i]); !proto.Equal(got[i], want) {
							t.Fatalf("series %d: got %v, want %v", i, got[i], want)
						}
					}
					if uint64(len(stream.messages)) != w.messages {
						t.Errorf("%d messages, counted %d", len(stream.messages), w.messages)
					}
				})
			}
		}
	}
}

// TestSeriesWriterStops expects all resources to be released when the stream breaks or the quota is too small
// for a chunk.
func TestSeriesWriterStops(t *testing.T) {
	quota := testQuota(t, 1<<20)
	w, err := newSeriesWriter(&tape{fail: io.ErrClosedPipe}, newFramePool(), quota, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.write([]tsblock.Label{{Name: "a", Value: "b"}}, nil); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v, want the stream's error", err)
	}
	w.close()
	if w, err = newSeriesWriter(&tape{}, newFramePool(), quota, 1, nil); err != nil {
		t.Fatal(err)
	}
	big := []storegateway.ChunkView{{Encoding: 1, Data: make([]byte, 2_000_000)}}
	if err := w.write([]tsblock.Label{{Name: "a", Value: "b"}}, big); !errors.Is(err, slab.ErrOverQuota) {
		t.Errorf("got %v, want the limit's error", err)
	}
	w.close()
	if used := quota.Used(); used != 0 {
		t.Errorf("%d bytes are still reserved", used)
	}
	quota.Close()
	if _, err := newSeriesWriter(&tape{}, newFramePool(), testQuota(t, 1<<10), 1, nil); !errors.Is(err, slab.ErrOverQuota) {
		t.Errorf("got %v, want the limit's error", err)
	}
}
