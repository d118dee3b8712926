package sqlast

import "vitess.io/vitess/go/vt/sqlparser"

//go:generate go run github.com/taredb/tare/sizegen .

// An Entry is the value in a cache: the tree, without the text it was parsed from.
//
//sizegen:root
type Entry struct {
	Statement sqlparser.Statement
}
