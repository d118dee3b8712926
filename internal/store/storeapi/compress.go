package storeapi

import (
	"context"
	"encoding/binary"
	"fmt"
	"reflect"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// A compressedStream compresses the messages of a call and writes them to its transport. gRPC would compress
// them into its own memory and not report when the transport has taken it; bytes in the API's buffers are
// charged until then. An estimate could be charged while the call runs, but not returned after a failed call whose
// client still reads (TestAbandonedCallsAreCharged).
type compressedStream struct {
	compressor encoding.Compressor
	write      reflect.Value // the method Write of gRPC's transport stream
	options    reflect.Value // its last argument, nil
}

// compressedStreamOf returns the compressed stream of a call, or nil if the call's response is not compressed.
// gRPC compresses a response as the request was compressed. If gRPC's transport stream lacks the method
// that compressedStream calls, the response is sent without compression.
func compressedStreamOf(ctx context.Context) (*compressedStream, error) {
	transport := grpc.ServerTransportStreamFromContext(ctx)
	stream, ok := transport.(interface{ SendCompress() string })
	if !ok {
		return nil, nil //nolint:nilnil // a call within the process
	}
	name := stream.SendCompress()
	if name == "" || name == encoding.Identity {
		return nil, nil //nolint:nilnil // no compression
	}
	s := compressedStream{compressor: encoding.GetCompressor(name), write: reflect.ValueOf(transport).MethodByName("Write")}
	if s.compressor == nil || !s.write.IsValid() || !isTransportWrite(s.write.Type()) {
		return nil, sendUncompressed(ctx)
	}
	s.options = reflect.Zero(s.write.Type().In(2))
	return &s, nil
}

// isTransportWrite reports whether a function has the arguments and the result of a transport stream's Write:
// a message's header, its bytes, options by pointer; an error.
func isTransportWrite(f reflect.Type) bool {
	return f.NumIn() == 3 && f.In(0) == reflect.TypeFor[[]byte]() && f.In(1) == reflect.TypeFor[mem.BufferSlice]() &&
		f.In(2).Kind() == reflect.Pointer && f.NumOut() == 1 && f.Out(0) == reflect.TypeFor[error]()
}

// sendUncompressed has gRPC send the response of a call without compression.
func sendUncompressed(ctx context.Context) error {
	if err := grpc.SetSendCompressor(ctx, encoding.Identity); err != nil {
		return fmt.Errorf("send a response without compression: %w", err)
	}
	return nil
}

// maxCompressed returns an upper bound of the length of n bytes after compression: compressors store blocks that
// cannot be compressed as they are.
func maxCompressed(n int) int { return n + n/16 + 1<<10 }

// compress appends the compressed message to dst, which has room for maxCompressed bytes more.
func (s *compressedStream) compress(dst, message []byte) ([]byte, error) {
	out := boundedWriter{dst}
	w, err := s.compressor.Compress(&out)
	if err != nil {
		return dst, fmt.Errorf("compress message: %w", err)
	}
	if _, err := w.Write(message); err != nil {
		return dst, fmt.Errorf("compress message: %w", err)
	}
	if err := w.Close(); err != nil {
		return dst, fmt.Errorf("compress message: %w", err)
	}
	return out.buf, nil
}

// send writes a compressed message to the transport, which frees it. It blocks while more than 64 KiB of
// earlier messages are waiting.
func (s *compressedStream) send(compressed mem.Buffer) error {
	defer compressed.Free()
	const flag = 1 // compressed
	header := binary.BigEndian.AppendUint32([]byte{flag}, uint32(compressed.Len()))
	result := s.write.Call([]reflect.Value{reflect.ValueOf(header), reflect.ValueOf(mem.BufferSlice{compressed}), s.options})
	if err, ok := result[0].Interface().(error); ok {
		return err
	}
	return nil
}

// A boundedWriter appends to a buffer up to its capacity.
type boundedWriter struct{ buf []byte }

// Write implements io.Writer.
func (w *boundedWriter) Write(p []byte) (int, error) {
	if len(p) > cap(w.buf)-len(w.buf) {
		return 0, fmt.Errorf("the compressor wrote more than %d bytes", cap(w.buf))
	}
	w.buf = append(w.buf, p...)
	return len(p), nil
}
