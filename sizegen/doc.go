// Command sizegen writes the code by which a cache knows what its entries cost: for each root
// type, a walk that adds up the heap bytes that a value holds, as the allocator charges them.
//
//	go tool sizegen [-verify | -measure | -explain path.Type] [-root path.Type]… packages
//
// A root is a type with the directive //sizegen:root, or one named by -root. Sizegen writes
// cached_size.go beside each root and beside the types of the module that the roots reach:
//
//	func (p *Plan) WalkHeap(w *heapsize.Walk)
//	func (p *Plan) CachedSize(w *heapsize.Walk) (bytes int64, err error)
//
// The walk uses no reflection. It counts what is shared once, ends at cycles, and, when
// w.Detach is set, has all strings copied into one allocation of the entry's own, so that
// the entry pins no text that they were cut from.
//
// # Terms
//
// The walk of a type is the function that leads a [heapsize.Walk] over the parts of a value.
// A box is the allocation in which an interface holds a value that is no pointer. A mirror is
// a struct with the layout of another package's type, through which its unexported fields are
// read. An interface is sealed when it has an unexported method: all its implementations are in one
// package. Directives are comments that say what the source cannot:
//
//	//sizegen:root                    on a type: a root
//	//sizegen:size N reason           on a field or type: N heap bytes, not looked into
//	//sizegen:opaque F() reason       on a field or type: as many as func F returns for it
//	//sizegen:shared reason           on a field or type: not the entry's own: 0 bytes, untouched
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
// What cannot be seen is never silently 0: funcs, unsafe pointers, channels of pointers,
// open interfaces of the standard library, and types of which the source gives no size are refused,
// with a directive that answers. Implementations that a package cannot name are warned about. An
// interface that turns out to hold an unlisted type makes CachedSize return a [heapsize.Error] and
// leave the value as it was.
//
// # Modes
//
// With -verify nothing is written, and stale files are named. With -measure a test is run in each
// package with roots, which fills values at random and compares their sizes with the heap. With
// -explain the walk of a type is printed as a tree.
//
// # Exit codes
//
// 0 done, or nothing stale, warnings or not; 1 failed, refused, or stale with -verify; 64 usage.
//
// It sizes one build configuration, that of the machine it runs on: types that differ by
// build tags differ in their walks. It does not look into test files.
package main
