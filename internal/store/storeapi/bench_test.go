package storeapi

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/store/storegateway"
)

// A benchCodec marshals encoded messages like the API, and messages in pieces; the client only counts bytes.
type benchCodec struct{ codec }

// pieces is a message that references chunks where they were read, between separate bytes for the rest.
type pieces struct{ buffers mem.BufferSlice }

func (c benchCodec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *pieces:
		return m.buffers, nil
	case *int:
		return mem.BufferSlice{mem.SliceBuffer{0}}, nil
	}
	return c.codec.Marshal(v)
}

func (benchCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*int) = data.Len()
	return nil
}

// inPieces returns the series as buffers that the transport could send without a copy: for each chunk, the
// bytes before it and the chunk itself.
func inPieces(made []madeSeries) *pieces {
	p := &pieces{}
	w := wire{buf: make([]byte, 64<<10)}
	room := 0
	for _, s := range made {
		room += 2 * len(s.chunks)
	}
	parts := make([]mem.SliceBuffer, 0, room)
	add := func(b []byte) {
		parts = append(parts, b)
		p.buffers = append(p.buffers, &parts[len(parts)-1])
	}
	for _, s := range made {
		from := w.n
		w.field(tagResponseSeries, 1<<14) // lengths do not matter here
		w.labels(s.labels)
		for i := range s.chunks {
			c := &s.chunks[i]
			w.field(tagSeriesChunk, chunkLen(c))
			w.number(tagChunkMinTime, uint64(c.MinTime))
			w.number(tagChunkMaxTime, uint64(c.MaxTime))
			w.field(tagChunkRaw, dataLen(0, len(c.Data)))
			w.field(tagData, len(c.Data))
			add(w.buf[from:w.n:w.n])
			add(c.Data)
			from = w.n
		}
	}
	return p
}

// BenchmarkSending sends series through a real connection: copied once into frames, as the API does, and in
// pieces that reference the chunks in place, whose messages are built before the clock starts. cpu-ns/B is
// the CPU time of both sides per byte; the client does the same work in both cases.
func BenchmarkSending(b *testing.B) {
	for _, size := range []int{180, 900, 4000} {
		made := makeSeries(rand.New(rand.NewPCG(1, 1)), 64, 0, 0)
		total := 0
		for i := range made {
			for k := range 48 {
				made[i].chunks = append(made[i].chunks, storegateway.ChunkView{MinTime: int64(1_700_000_000_000 + k), MaxTime: int64(1_700_000_000_100 + k), Encoding: 1, Data: make([]byte, size)})
				total += size
			}
		}
		for _, form := range []string{"frames", "pieces"} {
			b.Run(fmt.Sprintf("%d bytes a chunk/%s", size, form), func(b *testing.B) {
				frames, quota := newFramePool(), testQuota(b, 16<<20)
				var ready []*pieces
				if form == "pieces" {
					ready = allInPieces(made)
				}
				handler := func(_ any, stream grpc.ServerStream) error {
					var n int
					for stream.RecvMsg(&n) == nil {
						if err := sendOnce(stream, ready, frames, quota, made); err != nil {
							return err
						}
						if err := stream.SendMsg(&n); err != nil { // end of a round
							return err
						}
					}
					return nil
				}
				stream := dialBench(b, handler)
				b.SetBytes(int64(total))
				b.ReportAllocs()
				before := cpuNanos()
				for b.Loop() {
					one := 0
					if err := stream.SendMsg(&one); err != nil {
						b.Fatal(err)
					}
					for n := 0; n != 1; {
						if err := stream.RecvMsg(&n); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(cpuNanos()-before)/float64(b.N)/float64(total), "cpu-ns/B")
			})
		}
	}
}

// allInPieces builds messages that are about as large as frames.
func allInPieces(made []madeSeries) (messages []*pieces) {
	for part := range slices.Chunk(made, 6) {
		messages = append(messages, inPieces(part))
	}
	return messages
}

func sendOnce(stream grpc.ServerStream, ready []*pieces, frames *framePool, quota *slab.Quota, made []madeSeries) error {
	if ready != nil {
		for _, m := range ready {
			if err := stream.SendMsg(m); err != nil {
				return err
			}
		}
		return nil
	}
	w, err := newSeriesWriter(stream, frames, quota, 64, nil)
	if err != nil {
		return err
	}
	defer w.close()
	for _, s := range made {
		if err := w.write(s.labels, s.chunks); err != nil {
			return err
		}
	}
	return w.flush()
}

func cpuNanos() int64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return r.Utime.Nano() + r.Stime.Nano()
}

// dialBench connects to a server with one handler for all methods and opens a stream.
func dialBench(b *testing.B, h grpc.StreamHandler) grpc.ClientStream {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := grpc.NewServer(grpc.ForceServerCodecV2(benchCodec{}), grpc.UnknownServiceHandler(h))
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	c, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(benchCodec{}), grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = c.Close()
		s.Stop()
		<-done
	})
	stream, err := c.NewStream(b.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/bench/Series")
	if err != nil {
		b.Fatal(err)
	}
	return stream
}
