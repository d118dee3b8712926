package vitess

import "vitess.io/vitess/go/vt/sqlparser"

//go:generate go run github.com/taredb/tare/sizegen .

// A Statement is the syntax tree of one SQL statement by Vitess' parser.
//
//sizegen:root
type Statement struct{ Tree sqlparser.Statement }
