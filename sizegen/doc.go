// Command sizegen generates the code that sizes the entries of a cache: for each root type, a
// walk that adds up the heap bytes of a value, as the allocator charges them.
//
//	go tool sizegen [-verify | -measure | -explain path.Type] [-root path.Type]… packages
//
// A root is a type with the directive //sizegen:root, or one named by -root. Sizegen writes
// cached_size.go beside each root and beside the types of the module that the roots reach:
//
//	func (p *Plan) WalkHeap(w *heapsize.Walk)
//	func (p *Plan) CachedSize(w *heapsize.Walk) (bytes int64, err error)
//
// The walk uses no reflection. It counts shared objects once, stops at cycles, and, if w.Detach is set,
// copies all strings into one allocation that only the entry references, so that the entry does not keep
// alive the text they are substrings of.
//
// # Terms
//
// The walk of a type is the function that leads a [heapsize.Walk] over the parts of a value. A box is the
// allocation in which an interface stores a value that is not a pointer. A mirror is a struct with the layout
// of another package's type, used to read its unexported fields. An interface is sealed when it has an
// unexported method: all its implementations are in one package. Directives are comments that state facts the
// source cannot express:
//
//	//sizegen:root                    on a type: a root
//	//sizegen:size N reason           on a field or type: N heap bytes, not looked into
//	//sizegen:each N reason           on a slice, array or map: N for each func, channel, … in it
//	//sizegen:opaque F() reason       on a field or type: as many as func F returns for it
//	//sizegen:shared reason           on a field or type: another owner's: 0 bytes, untouched
//	//sizegen:types *A, B, string     on a field or an interface type: the only dynamic types
//	//sizegen:inside path.Type.Field reason
//	                                  on a slice or pointer: it points into that field of an object
//	//sizegen:field path.Type.Field size N reason
//	                                  anywhere in the module: any of these for a field, or a type,
//	                                  path.Type, of any module; several with commas
//	//sizegen:types path.Iface = *A, B
//	                                  the same for the dynamic types of an interface or field
//
// # Data flow
//
//	packages -> go/types -> roots and directives -> a work list of types -> one output a package
//	                                   \-> problems: file:line:col, what, why, what to try
//
// # Refusals
//
// Memory that the walk cannot see is never silently counted as 0. Funcs, unsafe pointers, channels of
// pointers, open interfaces of the standard library, and types whose size the source does not determine are
// refused, with a directive that resolves the refusal. Implementations that a package cannot name cause a
// warning. If an interface contains a value of an unlisted type, CachedSize returns a [heapsize.Error] and
// leaves the value unchanged.
//
// # Modes
//
// With -verify nothing is written, and stale files are listed. With -measure a test is run in each package
// with roots; it fills values at random and compares their sizes with the heap. With -explain the walk of a
// type is printed as a tree.
//
// # Exit codes
//
// 0 done, or nothing stale, even with warnings; 1 failed, refused, or stale with -verify; 64 usage.
//
// Sizegen covers one build configuration, that of the machine it runs on: types that differ by build tags
// have different walks. It does not read test files,
// and refuses directives there.
package main
