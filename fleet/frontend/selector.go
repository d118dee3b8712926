package frontend

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/taredb/tare/store/promapi"
)

// shardLabel is the label by which a selector selects one shard: __query_shard__="2_of_16", counted from 1.
const shardLabel = "__query_shard__"

// A selector selects the series of a request.
type selector struct {
	matchers []*labels.Matcher // as written; includes the metric's name before the braces
	sharded  bool              // it selects a shard already: a frontend above has split the request
}

// parseSelector parses a PromQL vector selector without an enclosing expression.
func parseSelector(text string) (selector, error) {
	if err := promapi.CheckExpr(text); err != nil {
		return selector{}, fmt.Errorf("selector: %w", err)
	}
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return selector{}, fmt.Errorf("selector: %w", err)
	}
	for {
		p, ok := expr.(*parser.ParenExpr)
		if !ok {
			break
		}
		expr = p.Expr
	}
	v, ok := expr.(*parser.VectorSelector)
	if !ok {
		return selector{}, fmt.Errorf("selector: want which series, such as up{job=\"api\"}, not %s", kindOf(expr))
	}
	switch {
	case v.OriginalOffset != 0 || v.OriginalOffsetExpr != nil:
		return selector{}, errors.New("selector: offset has no meaning here: active series are those of now")
	case v.Timestamp != nil || v.StartOrEnd != 0:
		return selector{}, errors.New("selector: @ has no meaning here: active series are those of now")
	case v.Anchored || v.Smoothed:
		return selector{}, errors.New("selector: anchored and smoothed have no meaning here: no samples are read")
	}
	sharded := slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool { return m.Name == shardLabel })
	return selector{v.LabelMatchers, sharded}, nil
}

// kindOf returns the kind of an expression for error texts.
func kindOf(e parser.Expr) string {
	switch e := e.(type) {
	case *parser.Call:
		return "a call of " + e.Func.Name + "()"
	case *parser.AggregateExpr:
		return "an aggregation, " + e.Op.String()
	case *parser.BinaryExpr:
		return "an operation, " + e.Op.String()
	case *parser.MatrixSelector:
		return "a range of samples"
	case *parser.SubqueryExpr:
		return "a subquery"
	case *parser.NumberLiteral, *parser.StringLiteral:
		return "a literal"
	}
	return "an expression of type " + string(e.Type())
}

// shard returns the selector of shard i of n, counted from 0. With n = 1 it selects all series.
func (s selector) shard(i, n int) string {
	b := []byte{'{'}
	if n > 1 {
		b = append(b, shardLabel+`="`...)
		b = strconv.AppendInt(b, int64(i)+1, 10)
		b = append(b, "_of_"...)
		b = strconv.AppendInt(b, int64(n), 10)
		b = append(b, '"')
	}
	return string(s.appendMatchers(b, false))
}

// masked returns the selector with ? for the values of its labels, except the metric's name.
func (s selector) masked() string { return string(s.appendMatchers([]byte{'{'}, true)) }

func (s selector) String() string { return string(s.appendMatchers([]byte{'{'}, false)) }

// appendMatchers appends the matchers and the closing brace. b starts with an opening brace.
func (s selector) appendMatchers(b []byte, masked bool) []byte {
	for _, m := range s.matchers {
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		if masked && m.Name != model.MetricNameLabel {
			m = &labels.Matcher{Type: m.Type, Name: m.Name, Value: "?"}
		}
		b = append(b, m.String()...)
	}
	return append(b, '}')
}
