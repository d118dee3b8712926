package storegateway

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/taredb/tare/internal/vtcodec"
)

// A codec turns messages into bytes and back for a gRPC server: answers to Series are bytes
// already.
type codec struct{ vtcodec.Codec }

var _ encoding.CodecV2 = codec{}

// A vtMessage has code that vtprotobuf generated.
type vtMessage interface {
	SizeVT() int
	MarshalToSizedBufferVT(dst []byte) (int, error)
	UnmarshalVT(src []byte) error
}

// Marshal returns the bytes of v. It does not allocate for answers to Series.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(*answer); ok {
		return m.buffers[:], nil
	}
	return c.Codec.Marshal(v)
}
