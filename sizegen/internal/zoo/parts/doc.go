// Package parts has types that the zoo contains and whose unexported fields it cannot access.
//
//	zoo ── holds ──► Part        walked by the method in this package's cached_size.go
//	    ── holds ──► Stack[T]    an instance has no method here: the zoo reads it through a mirror
//
// Only tests use the package.
package parts
