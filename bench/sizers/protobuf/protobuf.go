package protobuf

import (
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"
)

//go:generate go run github.com/taredb/tare/sizegen .

// Messages are two kinds of protobuf messages: with many optional fields, and with maps and oneofs.
//
//sizegen:field google.golang.org/protobuf/internal/impl.MessageInfo shared one per message type
//sizegen:field google.golang.org/protobuf/internal/impl.ExtensionField shared these messages have no extensions
//sizegen:root
type Messages struct {
	File   *descriptorpb.FileDescriptorProto
	Struct *structpb.Struct
}
