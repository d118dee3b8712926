package vtcodec

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// A Codec is gRPC's codec for messages, but faster for those with generated code. The bytes are the same.
// Decoding into a message reuses its memory.
type Codec struct{}

var _ encoding.CodecV2 = Codec{}

// message has code that vtprotobuf generated.
type message interface {
	SizeVT() int
	MarshalToSizedBufferVT(dst []byte) (int, error)
	UnmarshalVT(src []byte) error
}

// Name returns the name of gRPC's codec.
func (Codec) Name() string { return grpcproto.Name }

// Marshal returns the bytes of v in buffers that are freed once they are sent.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case message:
		size := m.SizeVT()
		if mem.IsBelowBufferPoolingThreshold(size) {
			return into(m, make([]byte, size))
		}
		pool := mem.DefaultBufferPool()
		room := pool.Get(size)
		if _, err := m.MarshalToSizedBufferVT((*room)[:size]); err != nil {
			pool.Put(room)
			return nil, fmt.Errorf("marshal %T: %w", v, err)
		}
		return mem.BufferSlice{mem.NewBuffer(room, pool)}, nil
	case proto.Message:
		b, err := proto.Marshal(m)
		if err != nil {
			return nil, fmt.Errorf("marshal %T: %w", v, err)
		}
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return nil, fmt.Errorf("marshal %T: it is no protobuf message", v)
}

func into(m message, b []byte) (mem.BufferSlice, error) {
	if _, err := m.MarshalToSizedBufferVT(b); err != nil {
		return nil, fmt.Errorf("marshal %T: %w", m, err)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

// Unmarshal decodes a message. It retains nothing of data.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	var err error
	switch m := v.(type) {
	case message:
		err = m.UnmarshalVT(buf.ReadOnlyData())
	case proto.Message:
		err = proto.Unmarshal(buf.ReadOnlyData(), m)
	default:
		return fmt.Errorf("unmarshal %T: it is no protobuf message", v)
	}
	if err != nil {
		return fmt.Errorf("unmarshal %T: %w", v, err)
	}
	return nil
}
