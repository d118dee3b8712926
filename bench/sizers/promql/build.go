package promql

import (
	_ "github.com/grafana/regexp" // imported by the generated code; keeps go.mod independent of that code
	"github.com/prometheus/prometheus/promql/parser"
)

// Parse returns the tree of an expression.
func Parse(text string) (*Query, error) {
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	return &Query{tree}, err
}
