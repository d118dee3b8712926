package heapsize

import "fmt"

// An Error tells why a walk stopped: it came upon something of which no size is known. The
// walked value is as it was; a Walk changes nothing before Finish.
type Error struct {
	Where string // the field, or the interface type
	Why   string
}

func (e *Error) Error() string { return fmt.Sprintf("size of %s: %s", e.Where, e.Why) }

// Unknown stops the walk with an [Error], which [Recover] turns into an error: an interface at
// where holds a dynamic type that the generated code has no case for. Guessing 0 would let a
// cache outgrow its bound unseen.
func (w *Walk) Unknown(where string, v any) {
	panic(&Error{Where: where, Why: "no walk is known for the dynamic type " + typeName(v)})
}

func typeName(v any) string { return fmt.Sprintf("%T", v) }

// Recover makes a stopped walk the error *err; it is to be deferred. Other panics go on.
func Recover(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Error:
		*err = r
	default:
		panic(r)
	}
}
