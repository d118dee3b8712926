// Package habitat implements an interface of a package that must not import it.
//
//	zoo: Animal (interface) ◄── implements ── habitat: Dog, Bird, Herd, Snake, Name
//
// The walk of a zoo.Animal therefore cannot name these types: sizegen gives them methods, in
// a cached_size.go of their own, by which values are walked. Nothing but tests uses the package.
package habitat
