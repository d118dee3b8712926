// Command sizers sizes values of types that sizegen did not generate, and prints the table of its README:
//
//	go run .             all subjects
//	go run . -only k8s   one of them
//	go run . -bytes 1e6  of about that many bytes each, instead of 10 MB
//
// For each subject it runs sizegen again, compares the computed size of some 10 MB of values with the growth
// of the heap, and times the walk. The table also has the sizes that other methods compute for the same
// values: a theine cache of them (github.com/Yiling-J/theine-go), with unsafe.Sizeof of the root plus the
// length of the text as its cost function; reflection (github.com/DmitriyVTitov/size); the sizes that Vitess
// generates for its own tree.
//
// A subject is a package with one root and its directives, and one entry of subjects in subjects.go.
package main
