package promql

import "github.com/prometheus/prometheus/promql/parser"

//go:generate go run github.com/taredb/tare/sizegen .

// A Query is the syntax tree of one PromQL expression.
//
//sizegen:field parser.VectorSelector.UnexpandedSeriesSet, parser.VectorSelector.Series, parser.Function shared they are not the query's own
//sizegen:types github.com/prometheus/prometheus/model/labels.StringMatcher = all
//sizegen:field github.com/prometheus/prometheus/model/labels.FastRegexMatcher.matchString size 16 a method value
//sizegen:field regexp/syntax.Inst.Rune inside regexp/syntax.Regexp.Rune0 short literals stay in the parse tree
//sizegen:root
type Query struct{ Tree parser.Expr }
