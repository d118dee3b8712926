// Command sizers weighs values of types that sizegen did not write, and prints the table of its README:
//
//	go run .             all subjects
//	go run . -only k8s   one of them
//	go run . -bytes 1e6  of about that many bytes each, instead of 10 MB
//
// For each subject it has sizegen generate the walk again, compares the account of some 10 MB of
// values with the growth of the heap, and times the walk. Beside it are what other ways to weigh say of
// the same values: unsafe.Sizeof of the root with the length of the text, as cost functions of caches
// are written; reflection (github.com/DmitriyVTitov/size); the sizes that Vitess generates for its own
// tree.
//
// A subject is a package with one root and its directives, and one entry of subjects in subjects.go.
package main
