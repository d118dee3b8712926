package promapi

import (
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Bounds of expressions. The time and memory of Prometheus' parser grow with the square of the depth of an
// expression, and those of its formatter with the cube; both recurse, and a stack of 1 GB ends the process.
// Depth is bounded by the operators and opening brackets outside of selectors. 250 take about half a second
// to format; 4,000 take about 0.2 s and 200 MB of short-lived memory to parse.
const (
	maxExprBytes  = 1 << 20
	maxNested     = 4000
	maxNestedText = 250 // for expressions to format
)

// A boundedParser rejects expressions that are too long or too deep before it parses them. It is safe for
// concurrent use.
type boundedParser struct{ parser.Parser }

// ParseExpr implements parser.Parser.
func (p boundedParser) ParseExpr(input string) (parser.Expr, error) {
	if err := CheckExpr(input); err != nil {
		return nil, err
	}
	return p.Parser.ParseExpr(input)
}

// parse calls parse, which parses the request's expression. Expressions are parsed before queries are
// admitted, so only one deep expression is parsed at a time: others wait within the time of their requests.
func (c *call) parse(timeout *time.Duration, parse func()) *Error {
	if boundExpr(c.seen.Query, maxNestedText) != nil {
		ctx, cancel := c.withTimeout(timeout)
		defer cancel()
		if err := c.api.parsing.acquire(ctx); err != nil {
			return c.api.classify(err)
		}
		defer c.api.parsing.release()
	}
	parse()
	return nil
}

// ParseMetricSelector implements parser.Parser.
func (p boundedParser) ParseMetricSelector(input string) ([]*labels.Matcher, error) {
	if err := boundLength(input); err != nil {
		return nil, err
	}
	return p.Parser.ParseMetricSelector(input)
}

// ParseMetricSelectors implements parser.Parser.
func (p boundedParser) ParseMetricSelectors(inputs []string) ([][]*labels.Matcher, error) {
	for _, input := range inputs {
		if err := boundLength(input); err != nil {
			return nil, err
		}
	}
	return p.Parser.ParseMetricSelectors(inputs)
}

func boundLength(input string) error {
	if len(input) > maxExprBytes {
		return fmt.Errorf("parse expression: %d bytes, at most %d are allowed: split the expression", len(input), maxExprBytes)
	}
	return nil
}

// CheckExpr returns an error if an expression is too long or too deep to be parsed, or its regular expressions are too large.
func CheckExpr(input string) error {
	if err := boundExpr(input, maxNested); err != nil {
		return err
	}
	return new(regexps).addText(input)
}

// boundExpr returns an error if an expression is too long, or has more operators and opening brackets than most.
func boundExpr(input string, most int) error {
	if err := boundLength(input); err != nil {
		return err
	}
	if len(input) <= most { // each takes at least a byte
		return nil
	}
	lexer := parser.Lex(input)
	nested, selector := 0, false
	for {
		var item parser.Item
		lexer.NextItem(&item)
		switch {
		case item.Typ == parser.EOF || item.Typ == parser.ERROR:
			return nil
		case item.Typ == parser.LEFT_BRACE:
			selector = true
		case item.Typ == parser.RIGHT_BRACE:
			selector = false
		case selector:
		case item.Typ == parser.LEFT_PAREN || item.Typ == parser.LEFT_BRACKET || item.Typ.IsOperator():
			nested++
		}
		if nested > most {
			return fmt.Errorf("parse expression: more than %d operators and opening brackets: split the expression", most)
		}
	}
}
