package tidb

import "github.com/pingcap/tidb/pkg/parser"

// Parse returns the tree of a statement. A parser keeps what it parsed last, so each is a new one.
func Parse(text string) (*Statement, error) {
	tree, err := parser.New().ParseOneStmt(text, "", "")
	return &Statement{tree}, err
}

// Parses reports whether the parser takes a statement.
func Parses(text string) bool {
	_, err := Parse(text)
	return err == nil
}
