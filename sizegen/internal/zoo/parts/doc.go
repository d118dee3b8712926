// Package parts has types that the zoo holds and whose unexported fields it cannot see.
//
//	zoo ── holds ──► Part        walked by the method in this package's cached_size.go
//	    ── holds ──► Stack[T]    an instance has no method here: the zoo reads it through a mirror
//
// Nothing but tests uses the package.
package parts
