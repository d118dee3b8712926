package tidb

import "github.com/pingcap/tidb/pkg/parser"

// Parse returns the tree of a statement. It uses a new parser each time, since a parser keeps its last
// result.
func Parse(text string) (*Statement, error) {
	tree, err := parser.New().ParseOneStmt(text, "", "")
	return &Statement{tree}, err
}

// Parses reports whether the parser accepts a statement.
func Parses(text string) bool {
	_, err := Parse(text)
	return err == nil
}
