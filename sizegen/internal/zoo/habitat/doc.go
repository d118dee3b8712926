// Package habitat implements an interface of a package that must not import it.
//
//	zoo: Animal (interface) ◄── implements ── habitat: Dog, Bird, Herd, Snake, Name
//
// The walk of a zoo.Animal therefore cannot name these types: sizegen generates methods for them, in a
// separate cached_size.go, by which values are walked. Only tests use the package.
package habitat
