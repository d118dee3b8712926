package storeapi

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/storepb"
)

// All methods are registered as streams, which is the same on the wire. A unary handler is called only once
// its request is complete, however long that takes, and returns before its response is written; the handler
// of a stream can limit the time of both.

// storeService returns the description of the StoreAPI.
func (a *API) storeService() *grpc.ServiceDesc {
	d := storepb.Store_ServiceDesc
	d.Methods = nil
	d.Streams = []grpc.StreamDesc{
		a.method("Series", compressible(a.sendSeries)), a.method("LabelNames", compressible(a.sendLabelNames)),
		a.method("LabelValues", compressible(a.sendLabelValues)),
	}
	d.Streams[0].ServerStreams = true
	return &d
}

// infoService returns the description of the InfoAPI.
func (a *API) infoService() *grpc.ServiceDesc {
	d := storepb.Info_ServiceDesc
	d.Methods = nil
	d.Streams = []grpc.StreamDesc{a.method("Info", uncompressed(a.sendInfo))}
	return &d
}

// healthService returns the description of gRPC's health service.
func (a *API) healthService(s *health.Server) *grpc.ServiceDesc {
	d := healthpb.Health_ServiceDesc
	watch := d.Streams[0]
	d.Methods = nil
	d.Streams = []grpc.StreamDesc{
		a.method("Check", uncompressed(func(stream *guardedStream) error { return sendHealth(s, stream) })),
		a.method(watch.StreamName, uncompressed(func(stream *guardedStream) error { return watch.Handler(s, stream) })),
	}
	d.Streams[1].ServerStreams = true
	return &d
}

// method returns the description of a method whose streams are guarded.
func (a *API) method(name string, handle func(*guardedStream) error) grpc.StreamDesc {
	return grpc.StreamDesc{StreamName: name, Handler: func(_ any, stream grpc.ServerStream) error {
		return handle(a.guard(stream))
	}}
}

// compressible has the response of a method compressed if the client requests it. Other methods' responses, which
// clients share or which are short, are not compressed.
func compressible(handle func(*guardedStream) error) func(*guardedStream) error {
	return func(stream *guardedStream) (err error) {
		if stream.compressed, err = compressedStreamOf(stream.Context()); err != nil {
			return err
		}
		return handle(stream)
	}
}

// uncompressed has the response of a method sent without compression.
func uncompressed(handle func(*guardedStream) error) func(*guardedStream) error {
	return func(stream *guardedStream) error {
		if err := sendUncompressed(stream.Context()); err != nil {
			return err
		}
		return handle(stream)
	}
}

func sendHealth(s *health.Server, stream *guardedStream) error {
	var r healthpb.HealthCheckRequest
	if err := stream.RecvMsg(&r); err != nil {
		return err
	}
	response, err := s.Check(stream.Context(), &r)
	if err != nil {
		return err //nolint:wrapcheck // a status
	}
	return stream.SendMsg(response)
}

func (a *API) sendSeries(stream *guardedStream) error {
	var r storepb.SeriesRequest
	if err := stream.RecvMsg(&r); err != nil {
		return err
	}
	return a.series(&r, stream)
}

func (a *API) sendLabelNames(stream *guardedStream) (err error) {
	var r storepb.LabelNamesRequest
	if err := stream.RecvMsg(&r); err != nil {
		return err
	}
	c := a.newCall(stream.Context(), "LabelNames", r.GetStart(), r.GetEnd())
	defer func() { err = c.finish(recover(), err) }()
	if err := c.labelNames(stream.Context(), &r, c.encodeFor(stream)); err != nil {
		return err
	}
	return c.send(stream)
}

func (a *API) sendLabelValues(stream *guardedStream) (err error) {
	var r storepb.LabelValuesRequest
	if err := stream.RecvMsg(&r); err != nil {
		return err
	}
	c := a.newCall(stream.Context(), "LabelValues", r.GetStart(), r.GetEnd())
	defer func() { err = c.finish(recover(), err) }()
	if err := c.labelValues(stream.Context(), &r, c.encodeFor(stream)); err != nil {
		return err
	}
	return c.send(stream)
}

func (a *API) sendInfo(stream *guardedStream) error {
	if err := stream.RecvMsg(&storepb.InfoRequest{}); err != nil {
		return err
	}
	b, err := a.encodedInfo()
	if err != nil {
		return err
	}
	return stream.sendBytes(b, nil)
}

// encodedInfo returns the encoded response of Info. All clients share its bytes until the blocks change.
func (a *API) encodedInfo() ([]byte, error) {
	generation := a.gateway.Generation()
	a.info.Lock()
	defer a.info.Unlock()
	if a.info.encoded != nil && a.info.generation == generation {
		return a.info.encoded, nil
	}
	r, err := a.Info(context.Background(), nil)
	if err != nil {
		return nil, err
	}
	b, err := r.MarshalVT()
	if err != nil {
		return nil, fmt.Errorf("encode response: %w", err)
	}
	a.info.generation, a.info.encoded = generation, b
	return b, nil
}

// A singleResponse is the encoded response of a method that has one. It is charged to the budget of
// responses, or to the query if it does not fit there.
type singleResponse struct {
	buf    []byte
	budget int64 // reserved in the budget of responses
	quota  int64 // reserved in the quota of the query
}

// encodeFor returns a function that encodes the response of a call as the stream sends it, and charges it.
func (c *call) encodeFor(stream *guardedStream) func(vtMessage) error {
	return func(m vtMessage) error {
		n := m.SizeVT()
		room := n
		if stream.compressed != nil {
			room += maxCompressed(n)
		}
		if err := c.reserveResponse(int64(room)); err != nil {
			return err
		}
		buf := make([]byte, n)
		if _, err := m.MarshalToSizedBufferVT(buf); err != nil {
			return fmt.Errorf("encode response: %w", err)
		}
		if stream.compressed != nil {
			var err error
			if buf, err = stream.compressed.compress(make([]byte, 0, maxCompressed(n)), buf); err != nil {
				return err
			}
		}
		c.response.buf = buf
		return nil
	}
}

// reserveResponse charges n bytes for the response of a call.
func (c *call) reserveResponse(n int64) error {
	if c.api.options.Responses.Reserve(n, 0) {
		c.response.budget = n
		return nil
	}
	if err := c.query.Quota().Reserve(slab.ResponseBytes, n); err != nil {
		return err
	}
	c.response.quota = n
	c.api.unbuffered.Add(1)
	return nil
}

// send sends the encoded response of a call. It closes the query first, unless the response is charged to it.
func (c *call) send(stream *guardedStream) error {
	if c.response.quota == 0 {
		c.query.Close()
	}
	return stream.sendBytes(c.response.buf, c)
}

// sendResponse sends a message beside those of a writer. The query stays open.
func (c *call) sendResponse(stream *guardedStream, m vtMessage) error {
	defer c.release()
	if err := c.encodeFor(stream)(m); err != nil {
		return err
	}
	return stream.sendBytes(c.response.buf, c)
}

// release returns the bytes charged for the response.
func (c *call) release() {
	c.api.options.Responses.Release(c.response.budget)
	if c.response.quota > 0 {
		c.query.Quota().Return(slab.ResponseBytes, c.response.quota)
	}
	c.response = singleResponse{}
}

// sendBytes sends an encoded message and blocks until the transport has taken all of it, at most for
// Options.WriteTimeout. If it fails, the bytes charged for the call's response, if there is one, are charged
// until the transport frees the message.
func (g *guardedStream) sendBytes(b []byte, c *call) error {
	sent := make(chan struct{}, 1)
	var buffer mem.Buffer = mem.SliceBuffer(b)
	if mem.IsBelowBufferPoolingThreshold(cap(b)) {
		sent <- struct{}{}
	} else {
		buffer = mem.NewBuffer(&b, freed(sent))
	}
	err := guarded(g, func() error {
		if g.compressed != nil {
			return g.compressed.send(buffer)
		}
		return g.ServerStream.SendMsg(&encodedMessage{[1]mem.Buffer{buffer}})
	})
	if err != nil {
		err = fmt.Errorf("send response: %w", err)
	} else if err = wait(g, sent); err == nil {
		return nil
	}
	if c != nil && len(sent) == 0 {
		g.api.abandon(g.Context(), int64(cap(b)), sent)
	}
	return err
}

// freed is the buffer pool of one buffer: it receives a value when gRPC has released the buffer.
type freed chan<- struct{}

// Get implements mem.BufferPool. It is never called.
func (freed) Get(int) *[]byte { panic("BUG: storeapi: a response has one buffer") }

// Put implements mem.BufferPool.
func (f freed) Put(*[]byte) { f <- struct{}{} }
