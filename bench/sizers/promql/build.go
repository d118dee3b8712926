package promql

import (
	_ "github.com/grafana/regexp" // by what is generated; go.mod is the same without it
	"github.com/prometheus/prometheus/promql/parser"
)

// Parse returns the tree of an expression.
func Parse(text string) (*Query, error) {
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	return &Query{tree}, err
}
