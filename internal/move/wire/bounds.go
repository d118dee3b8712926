package wire

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/taredb/tare/internal/vtcodec"
)

// A requestCodec is the codec of the service's requests. It rejects one with a field that is too large before it decodes
// it: an empty column of two bytes takes 170 in memory.
type requestCodec struct{ vtcodec.Codec }

var _ encoding.CodecV2 = requestCodec{}

// Unmarshal decodes a request.
func (c requestCodec) Unmarshal(data mem.BufferSlice, v any) error {
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	if m, ok := v.(proto.Message); ok {
		var b requestBounds
		if err := b.check(buf.ReadOnlyData(), m.ProtoReflect().Descriptor()); err != nil {
			return err
		}
	}
	return c.Codec.Unmarshal(mem.BufferSlice{buf}, v)
}

// Bounds of requests.
const (
	maxParts = 400_000 // messages, texts and numbers in lists, of a whole request

	maxListed  = 100_000 // of a list that is not named below
	maxTables  = 20_000
	maxColumns = 4096 // of a table, as in MySQL
	maxKey     = 64   // columns of a key

	maxName    = 1 << 10 // bytes of a name, of a type without its values, of a position's file
	maxMessage = maxRequest
	maxWhere   = 1 << 20
	maxKeyText = 1 << 20 // of the values of a key
)

// listBound returns the maximum number of elements of a list.
func listBound(field protoreflect.Name) int {
	switch field {
	case "tables":
		return maxTables
	case "columns", "generated", "output":
		return maxColumns
	case "key", "descending":
		return maxKey
	}
	return maxListed
}

// textBound returns the maximum number of bytes of a text.
func textBound(field protoreflect.Name) int {
	switch field {
	case "schema", "name", "key_name", "engine", "type", "charset", "collation", "schemas", "run", "copy", "identity", "ignore", "triggers", "references":
		return maxName
	case "where":
		return maxWhere
	case "after", "upto":
		return maxKeyText
	}
	return maxMessage
}

// requestBounds count the parts of a request.
type requestBounds struct{ parts int }

// check returns an error that names a field which is too large. Other errors are left to the decoder.
func (n *requestBounds) check(b []byte, d protoreflect.MessageDescriptor) error {
	fields := d.Fields()
	var listed []int // elements of the lists, by field
	for len(b) > 0 {
		num, typ, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return nil
		}
		size := protowire.ConsumeFieldValue(num, typ, b[tag:])
		if size < 0 {
			return nil
		}
		value := b[tag : tag+size]
		b = b[tag+size:]
		f := fields.ByNumber(num)
		if f == nil {
			continue // of a later version: its bytes are kept
		}
		var content []byte
		if typ == protowire.BytesType {
			content, _ = protowire.ConsumeBytes(value)
		}
		if f.IsList() {
			if listed == nil {
				listed = make([]int, fields.Len())
			}
			more := 1
			if typ == protowire.BytesType && f.IsPacked() {
				more = varints(content)
			}
			if listed[f.Index()] += more; listed[f.Index()] > listBound(f.Name()) {
				return fmt.Errorf("field %s of %s has more than %d elements", f.Name(), d.Name(), listBound(f.Name()))
			}
			n.parts += more
		}
		switch f.Kind() {
		case protoreflect.MessageKind:
			n.parts++
			if err := n.check(content, f.Message()); err != nil {
				return err
			}
		case protoreflect.StringKind, protoreflect.BytesKind:
			if most := textBound(f.Name()); len(content) > most {
				return fmt.Errorf("field %s of %s has %d bytes, the limit is %d", f.Name(), d.Name(), len(content), most)
			}
		}
		if n.parts > maxParts {
			return fmt.Errorf("the request has more than %d tables, columns and other parts, at field %s of %s", maxParts, f.Name(), d.Name())
		}
	}
	return nil
}

// varints returns the number of numbers that end in b.
func varints(b []byte) (n int) {
	for _, c := range b {
		if c < 0x80 {
			n++
		}
	}
	return n
}
