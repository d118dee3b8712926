package protobuf

import (
	"encoding/json"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/taredb/tare/bench/sizers/texts"
)

// wire returns the i-th messages in wire format: descriptors of the linked files, and structs.
func wire(i int) (file, object []byte, err error) {
	n := i % protoregistry.GlobalFiles.NumFiles()
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if n--; n >= 0 {
			return true
		}
		file, err = proto.Marshal(protodesc.ToFileDescriptorProto(f))
		return false
	})
	if err != nil {
		return nil, nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(texts.Deployment(i)), &fields); err != nil {
		return nil, nil, err
	}
	s, err := structpb.NewStruct(fields)
	if err != nil {
		return nil, nil, err
	}
	object, err = proto.Marshal(s)
	return file, object, err
}

// New returns the i-th messages, decoded.
func New(i int) (*Messages, error) {
	file, object, err := wire(i)
	if err != nil {
		return nil, err
	}
	m := &Messages{new(descriptorpb.FileDescriptorProto), new(structpb.Struct)}
	if err := proto.Unmarshal(file, m.File); err != nil {
		return nil, err
	}
	return m, proto.Unmarshal(object, m.Struct)
}

// WireSize returns the bytes of the i-th messages in wire format.
func WireSize(i int) int64 {
	file, object, err := wire(i)
	if err != nil {
		panic(err)
	}
	return int64(len(file) + len(object))
}
