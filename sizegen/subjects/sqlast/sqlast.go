package sqlast

import "vitess.io/vitess/go/vt/sqlparser"

//go:generate go run github.com/taredb/tare/sizegen .

// An Entry is what a cache would hold: the tree, and nothing of the text it was parsed from.
//
//sizegen:root
type Entry struct {
	Statement sqlparser.Statement
}
