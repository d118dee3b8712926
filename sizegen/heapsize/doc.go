// Package heapsize computes the heap bytes of a Go value, as the allocator charges them.
//
// # Terms
//
//   - A size class is one of the 68 sizes that small allocations are rounded up to.
//   - A pointerful object is one that the garbage collector scans. Past 512 bytes it
//     carries a malloc header of 8 bytes, which can lift it into the next class.
//   - A large object, past 32 KiB, takes whole pages.
//   - A span, here, is a stretch of memory that a [Walk] has visited.
//
// # Data flow
//
//	a type known beforehand                           a value with pointers inside
//	Object, Array, Boxed, Chan, ShapeOf               Walk.Enter, String, WalkSlice, WalkMap …
//	            │                                                 │  visited by address
//	            ▼                                                 ▼
//	  classes: learned from slice growth ◄──────────── Finish: strings detached, spans merged,
//	  of the running program, once                     each object charged once
//
// # How exact
//
// Classes, header rule and page size are not copied from the runtime: append rounds a slice's
// capacity to what the allocator charges anyway, and growing slices through all sizes shows
// them. Objects, slices, strings, boxes and channels are exact.
//
// The tiny allocator packs pointer-free objects smaller than 16 bytes into blocks of 16, and
// a block lives as long as any object in it. A size alone cannot say who shares the block, so
// [Object] charges the whole block: never too little. A [Walk] sees addresses and
// charges a block that several objects of one value share once.
//
// The tables of a map depend on what it held before: it never shrinks, and hash bits decide
// which tables split. No bound follows from its length (a map emptied by delete keeps all
// its tables), so [Map] reads the map's own header and tables. That layout is not public: it is
// compiled in only for the releases of Go it was read in (1.25 to 1.27), and checked at first use
// against maps of known shapes, counts before pointers. Otherwise [MapsExact] is false and a
// map is charged a bound which holds for maps that were never larger than they are.
//
// # What it does not do
//
// It does not find the objects that a value points to: that is left to the code that leads the
// Walk, best generated. It does not see the unexported fields of other packages' types, the
// variables that a closure captures (an object of their sizes plus one word for the code, when
// there are any), or the goroutines that wait on a channel. An object that only a pointer into its
// middle reaches is charged as the caller states by [Walk.Inside]. It cannot distinguish heap
// memory from constants, boxes of constants and package-level variables: all are charged as if
// they were on the heap, never too little. It does not count the allocator's overhead: span
// descriptors, free slots of partly used spans, stacks.
//
// # Specification
//
// The behaviour described is that of Go's runtime: runtime/malloc.go and runtime/msize.go for
// classes, headers and pages, internal/runtime/maps for maps, runtime/iface.go for boxes,
// runtime/chan.go for channels.
package heapsize
