// Package heapsize computes the heap bytes of a Go value, as charged by the allocator.
//
//	n := heapsize.Object(unsafe.Sizeof(v), true) // one allocation
//	n += heapsize.String(v.Name)                 // and its string
//
// Command sizegen generates code that leads a [Walk] over all parts of a value; see the example of Walk.
//
// # Terms
//
//   - A size class is one of the 68 sizes that small allocations are rounded up to.
//   - A pointerful object is one that the garbage collector scans. Past 512 bytes it has a malloc header
//     of 8 bytes, which can move it into the next class.
//   - A large object, past 32 KiB, occupies whole pages.
//   - A span, here, is a range of memory that a [Walk] has visited.
//
// # Data flow
//
//	a type known beforehand                           a value with pointers inside
//	Object, Array, Boxed, Chan, ShapeOf               Walk.Enter, String, WalkSlice, WalkMap …
//	            │                                                 │  visited by address; the runtime
//	            │                                                 │  names the object of each
//	            ▼                                                 ▼
//	  classes: learned from slice growth ◄──────────── Finish: strings detached, spans merged,
//	  of the running program, once                     each object charged once
//
// # Accuracy
//
// Classes, header rule and page size are not copied from the runtime: append rounds a slice's capacity to the
// size that the allocator charges, and growing slices through all sizes reveals them. Objects, slices,
// strings, boxes and channels are exact.
//
// The tiny allocator packs pointer-free objects smaller than 16 bytes into blocks of 16, and a block lives as
// long as any object in it. A size alone does not show which objects share the block, so [Object] charges the
// whole block: never too little. A [Walk] sees addresses and charges a block that several objects of one
// value share once.
//
// The tables of a map depend on its history: it never shrinks, and hash bits decide which tables split. Its
// length gives no bound (a map emptied by delete keeps all its tables), so [Map] reads the map's header and
// tables. That layout is not public: it is compiled in only for the releases of Go it was verified with (1.25
// to 1.27), and checked at first use against maps of known shapes, counts before pointers. Otherwise
// [MapsExact] is false and a map is charged a bound that is valid for maps that were never larger than they
// are.
//
// # Limits
//
// The package does not find the objects that a value points to: the code that leads the Walk does, preferably
// generated. It does not see the unexported fields of other packages' types, the variables that a closure
// captures (an object of their sizes plus one word for the code, if there are any), or the goroutines that
// wait on a channel. An object that is reached only by a pointer into its middle is charged as a whole, and
// [Walk.Check] reports it: what its other fields point to is not walked. Constants, package-level variables and memory
// of cgo or mmap are not on the heap: they are not charged, and [Walk.Outside] counts them. An object on a
// goroutine's stack is charged, and charged again if it is reached a second time after the stack has grown,
// because a growing stack is moved. The allocator's overhead is not counted: span descriptors, free slots of
// partly used spans, stacks.
//
// # Specification
//
// The behavior described is that of Go's runtime: runtime/malloc.go and runtime/msize.go for classes, headers
// and pages, findObject in runtime/mbitmap.go for the object of an address (kept for other packages:
// go.dev/issue/67401), internal/runtime/maps for maps, runtime/iface.go for boxes, runtime/chan.go for channels.
package heapsize
