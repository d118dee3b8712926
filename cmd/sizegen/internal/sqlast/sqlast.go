// Package sqlast holds the syntax tree of Vitess' SQL parser, a large body of types that this
// module did not write, to compare the generated walk's sum with the heap. Nothing but tests
// uses it.
package sqlast

import "vitess.io/vitess/go/vt/sqlparser"

//go:generate go run github.com/taredb/tare/cmd/sizegen .

// An Entry is what a cache would hold: the tree, and nothing of the text it was parsed from.
//
//sizegen:root
type Entry struct {
	Statement sqlparser.Statement
}
