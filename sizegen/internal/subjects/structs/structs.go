package structs

import "google.golang.org/protobuf/types/known/structpb"

//go:generate go run github.com/taredb/tare/sizegen .

// An Entry is a message of a cache.
//
//sizegen:field google.golang.org/protobuf/internal/impl.MessageState shared it belongs to another owner
//sizegen:root
type Entry struct{ Value *structpb.Struct }
