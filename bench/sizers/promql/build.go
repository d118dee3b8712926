package promql

import (
	_ "github.com/grafana/regexp" // imported by the generated code; so go.mod is the same without that code
	"github.com/prometheus/prometheus/promql/parser"
)

// Parse returns the tree of an expression.
func Parse(text string) (*Query, error) {
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	return &Query{tree}, err
}
