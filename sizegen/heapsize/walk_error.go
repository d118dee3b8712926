package heapsize

import (
	"fmt"
	"reflect"
)

// An Error is the reason why a walk stopped: it met an object of unknown size. The walked value is unchanged;
// a Walk changes nothing before Finish.
type Error struct {
	Where string // the field, or the interface type
	Why   string

	dynamic reflect.Type // of an interface
}

func (e *Error) Error() string { return fmt.Sprintf("size of %s: %s", e.Where, e.Why) }

// Unknown stops the walk with an [Error], which [Recover] turns into an error: the dynamic type of an
// interface at where has no case in the generated code. Assuming 0 would let a cache exceed its bound
// unnoticed.
func (w *Walk) Unknown(where string, v any) {
	panic(&Error{Where: where, Why: "no walk is known for the dynamic type " + typeName(v), dynamic: reflect.TypeOf(v)})
}

func typeName(v any) string { return fmt.Sprintf("%T", v) }

// Recover sets *err to the error of a stopped walk; use it with defer. Other panics continue.
func Recover(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Error:
		*err = r
	default:
		panic(r)
	}
}

// RecoverIn is [Recover] for a walk of all that root, a pointer, holds: the error names the field whose interface has the
// unknown type.
func RecoverIn(err *error, root any) {
	switch r := recover().(type) {
	case nil:
	case *Error:
		if r.dynamic != nil {
			if field := pathToType(root, r.dynamic); field != "" {
				r.Where = field
			}
		}
		*err = r
	default:
		panic(r)
	}
}
