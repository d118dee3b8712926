package goast

import (
	"go/parser"
	"go/token"
)

// Parse returns the tree of a file.
func Parse(text string) (*File, error) {
	tree, err := parser.ParseFile(token.NewFileSet(), "", text, parser.ParseComments)
	return &File{tree}, err
}
