// Package zoo has types of every kind that sizegen walks, to compare the walk's sum with the heap. Its
// cached_size.go is generated and committed; only tests use the package.
package zoo

//go:generate go run github.com/taredb/tare/sizegen ./...
