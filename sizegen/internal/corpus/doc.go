// Command corpus weighs types of other modules as a user would who pastes every suggestion of sizegen without reading it,
// and prints a table:
//
//	go run ./sizegen/internal/corpus [-draw 24] [-seed 1] [-only part of a name]
//
// Of the types in corpus.txt it draws some by seed. For each it writes a module with a root that holds the type, runs
// sizegen, pastes the suggestions for at most three rounds, and runs sizegen -measure: random values, beside the heap. Modules
// are downloaded by the go command. It exits with 1 if suggestions are left after three rounds, or a size is off by more
// than 1 %, or by more than the blocks of tiny objects, which are charged to each value.
package main
