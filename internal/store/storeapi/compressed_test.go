package storeapi

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"

	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/teststore"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// A countedPool counts the bytes of the buffers that gRPC has taken from its pool, by their capacity.
type countedPool struct {
	mem.BufferPool
	held, peak atomic.Int64
}

func (p *countedPool) Get(n int) *[]byte {
	b := p.BufferPool.Get(n)
	held := p.held.Add(int64(cap(*b)))
	for peak := p.peak.Load(); held > peak && !p.peak.CompareAndSwap(peak, held); peak = p.peak.Load() {
	}
	return b
}

func (p *countedPool) Put(b *[]byte) {
	p.held.Add(-int64(cap(*b)))
	p.BufferPool.Put(b)
}

// serveWriter starts a server with a method that passes its stream to handle, and returns a connection to it.
func serveWriter(t *testing.T, handle func(grpc.ServerStream) error, options ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(append(options, grpc.ForceServerCodecV2(codec{}), grpc.WaitForHandlers(true))...)
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "test", Streams: []grpc.StreamDesc{{
		StreamName: "Write", ServerStreams: true, Handler: func(_ any, stream grpc.ServerStream) error { return handle(stream) },
	}}}, nil)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	c, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{})), grpc.WithStaticStreamWindowSize(64<<10))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		s.Stop()
		if err := testwait.Receive(t, "Serve to return", done); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestCompressedMessagesAreCharged lets a client stop reading a stream of incompressible chunks: the compressed
// messages that wait for it are in a frame that is charged to the query, for all compressors and message sizes,
// and gRPC has no copies of them. A stream without compression is charged its frame.
func TestCompressedMessagesAreCharged(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for _, sizes := range []struct {
		name        string
		chunk, each int // bytes per chunk, and chunks per series
		batch       int
	}{
		{"small messages", 1500, 1, 1},
		{"full frames", 1000, 30, 64},
		{"chunks larger than frames", 700_000, 1, 1},
	} {
		for _, compressor := range []string{"", snappyName, gzip.Name} {
			t.Run(sizes.name+"/"+compressor, func(t *testing.T) {
				chunks := make([]storegateway.ChunkView, sizes.each)
				for i := range chunks {
					chunks[i] = storegateway.ChunkView{Encoding: 1, Data: make([]byte, sizes.chunk)}
					for j := range chunks[i].Data {
						chunks[i].Data[j] = byte(r.Uint32())
					}
				}
				pool := &countedPool{BufferPool: mem.DefaultBufferPool()}
				quota := testQuota(t, 16<<20)
				conn := serveWriter(t, func(stream grpc.ServerStream) error {
					if err := stream.RecvMsg(teststore.Everything()); err != nil {
						return err
					}
					compressed, err := compressedStreamOf(stream.Context())
					if err != nil || (compressed != nil) != (compressor != "") {
						return fmt.Errorf("a response compressed by %q: %v, %w", compressor, compressed, err)
					}
					w, err := newSeriesWriter(stream, newFramePool(), quota, sizes.batch, compressed)
					if err != nil {
						return err
					}
					defer w.close()
					for {
						if err := w.write([]tsblock.Label{{Name: "a", Value: "b"}}, chunks); err != nil {
							return err
						}
					}
				}, experimental.BufferPool(pool))
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				var options []grpc.CallOption
				if compressor != "" {
					options = append(options, grpc.UseCompressor(compressor))
				}
				stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/test/Write", options...)
				if err != nil {
					t.Fatal(err)
				}
				if err := stream.SendMsg(teststore.Everything()); err != nil {
					t.Fatal(err)
				}
				if _, err := stream.Header(); err != nil {
					t.Fatal(err)
				}
				waitForBlockedWriter(t)
				frame := int64(max(frameBytes, sizes.chunk))
				want, copies := frame+1<<10, pool.peak.Load()
				if compressor != "" {
					want += int64(max(maxCompressed(int(frame)), frameBytes)) + frameBytes + 1<<10
				}
				if charged := quota.Used(); charged < frame || charged > want || copies > 32<<10 {
					t.Errorf("%d bytes are charged, want at most %d; gRPC has copies of %d bytes", charged, want, copies)
				}
				received := 0
				for range 20 {
					var response storepb.SeriesResponse
					if err := stream.RecvMsg(&response); err != nil {
						t.Fatal(err)
					}
					series := append(response.GetBatch().GetSeries(), response.GetSeries())
					for _, s := range series {
						for i, c := range s.GetChunks() {
							if received++; !bytes.Equal(c.GetRaw().GetData(), chunks[i].Data) {
								t.Fatalf("chunk %d of a series differs", i)
							}
						}
					}
				}
				if received < 20 {
					t.Errorf("20 messages had %d chunks", received)
				}
				leave()
				testwait.Until(t, "the handler to return its bytes", func() bool { return quota.Used() == 0 })
			})
		}
	}
}

// waitForBlockedWriter waits until a goroutine waits for the transport to take messages.
func waitForBlockedWriter(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 4<<20)
	testwait.Until(t, "the writer to wait for the transport", func() bool {
		all := stacks[:runtime.Stack(stacks, true)]
		return bytes.Contains(all, []byte("transport.(*writeQuota).get(")) || bytes.Contains(all, []byte("storeapi.wait("))
	})
}
