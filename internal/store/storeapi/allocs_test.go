package storeapi

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"google.golang.org/grpc"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// A sunk stream sends every message immediately.
type sunk struct {
	grpc.ServerStream
	bytes int
}

func (s *sunk) SendMsg(m any) error {
	data, err := codec{}.Marshal(m)
	if err != nil {
		return err
	}
	s.bytes += data.Len()
	data.Free()
	return nil
}

// TestStoreAPIAllocs measures the allocations of encoding series into messages and of logging requests.
func TestStoreAPIAllocs(t *testing.T) {
	made := makeSeries(rand.New(rand.NewPCG(3, 3)), 20, 20, 1000)
	stream := &sunk{}
	pool := newFramePool()
	quota := testQuota(t, 4<<20)
	writeAll := func(batch int) func() error {
		w, err := newSeriesWriter(stream, pool, quota, batch, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.close)
		return func() error {
			for _, s := range made {
				if err := w.write(s.labels, s.chunks); err != nil {
					return err
				}
			}
			if err := w.flush(); err != nil {
				return err
			}
			if stream.bytes == 0 {
				return errors.New("nothing was sent")
			}
			stream.bytes = 0
			return nil
		}
	}
	shard := &groupShard{total: 3, by: true, names: []string{"__name__", "pod"}}
	log, err := querylog.New(querylog.Options{FlushAfter: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close(t.Context()) })
	matchers := []*labels.Matcher{
		labels.MustNewMatcher(labels.MatchEqual, "__name__", "up"),
		labels.MustNewMatcher(labels.MatchRegexp, "pod", "web-[0-9]+"),
	}
	filter, err := querylog.ParseFilter("endpoint=Series tenant!=x client~127 series>0 matchers~web digest!=0 code=OK error_text!~x")
	if err != nil {
		t.Fatal(err)
	}
	filtered, err := querylog.New(querylog.Options{FlushAfter: time.Hour, Filter: filter})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = filtered.Close(t.Context()) })
	entry := &storegateway.LogEntry{}
	operations := uint64(0)
	logged := func(l *querylog.Logger) func() error {
		return func() error {
			entry.Reset()
			entry.Start, entry.Total = time.Unix(1_700_000_000, 5), time.Second
			entry.Endpoint, entry.Tenant, entry.Code = "Series", "ann", storegateway.CodeOK
			entry.Client = netip.MustParseAddrPort("127.0.0.1:9999")
			entry.SetRange(1, 2)
			entry.SetMatchers(matchers)
			entry.Series, entry.Chunks, entry.BytesOut = 7, 8, 9
			l.LogEntry(entry)
			operations++
			return nil
		}
	}
	warm := logged(log)
	for range 20_000 { // until all buffers are allocated
		if err := warm(); err != nil {
			t.Fatal(err)
		}
	}
	alloctest.Run(t, []alloctest.Case{
		{Name: "20 series, one a message", Op: writeAll(1)},
		{Name: "20 series, 64 a message", Op: writeAll(64)},
		{Name: "shard of a series", Op: func() error {
			shard.has(made[0].labels)
			return nil
		}},
		{Name: "a request logged", Op: logged(log)},
		{Name: "a request filtered and logged", Op: logged(filtered)},
	})
	if lines := log.Stats().Seq + filtered.Stats().Seq; lines != operations {
		t.Errorf("%d lines of %d requests", lines, operations)
	}
}

// TestSnappy compresses several messages with one compressor in Snappy's framing format and reads them.
func TestSnappy(t *testing.T) {
	c := newSnappyCompressor()
	for i, text := range []string{"", "a", strings.Repeat("a message ", 100_000)} {
		var compressed bytes.Buffer
		w, err := c.Compress(&compressed)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		theirs, err := io.ReadAll(snappy.NewReader(bytes.NewReader(compressed.Bytes())))
		if err != nil || string(theirs) != text {
			t.Errorf("message %d: the snappy package reads %d bytes, %v", i, len(theirs), err)
		}
		r, err := c.Decompress(bytes.NewReader(compressed.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		ours, err := io.ReadAll(r)
		if err != nil || string(ours) != text {
			t.Errorf("message %d: got %d bytes, %v", i, len(ours), err)
		}
		if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("message %d: behind its end: %d, %v", i, n, err)
		}
	}
	r, err := c.Decompress(strings.NewReader("no snappy at all"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); err == nil {
		t.Error("what is not compressed was read")
	}
}

// TestGroupShardHash compares the hash with that of Thanos v0.41 for the same labels.
func TestGroupShardHash(t *testing.T) {
	ls := []tsblock.Label{{Name: "__name__", Value: "up"}, {Name: "job", Value: "tare"}, {Name: "pod", Value: "a"}}
	for _, c := range []struct {
		by    bool
		names []string
		shard uint64 // of 1000
	}{
		{true, []string{"job"}, 727},
		{false, []string{"job"}, 211},
		{true, nil, 921},
	} {
		g := &groupShard{total: 1000, index: c.shard, by: c.by, names: c.names}
		if !g.has(ls) {
			t.Errorf("by %v %v: not in shard %d", c.by, c.names, c.shard)
		}
	}
}
