package promapi

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// A treeEncoder appends an expression's tree. The keys of each object are sorted.
type treeEncoder struct {
	b   []byte
	err error
}

// appendExpr appends an expression as the JSON tree that Prometheus' page draws.
func appendExpr(dst []byte, e parser.Expr) ([]byte, error) {
	t := treeEncoder{b: dst}
	t.expr(e)
	return t.b, t.err
}

// key appends a field's name; open starts the object before it.
func (t *treeEncoder) key(name string) {
	if t.b[len(t.b)-1] != '{' {
		t.b = append(t.b, ',')
	}
	t.b = append(t.b, '"')
	t.b = append(t.b, name...)
	t.b = append(t.b, '"', ':')
}

func (t *treeEncoder) open()  { t.b = append(t.b, '{') }
func (t *treeEncoder) close() { t.b = append(t.b, '}') }

func (t *treeEncoder) text(name, s string) {
	t.key(name)
	t.b = appendText(t.b, s)
}

func (t *treeEncoder) bool(name string, v bool) {
	t.key(name)
	t.b = strconv.AppendBool(t.b, v)
}

func (t *treeEncoder) int(name string, n int64) {
	t.key(name)
	t.b = strconv.AppendInt(t.b, n, 10)
}

func (t *treeEncoder) list(name string, list []string) {
	t.key(name)
	t.b = appendTexts(t.b, list)
}

func (t *treeEncoder) node(name string, e parser.Expr) {
	t.key(name)
	t.expr(e)
}

// null appends the value of a missing part.
func (t *treeEncoder) null() { t.b = append(t.b, "null"...) }

func (t *treeEncoder) expr(e parser.Expr) {
	switch n := e.(type) {
	case nil:
		t.null()
	case *parser.AggregateExpr:
		t.open()
		t.node("expr", n.Expr)
		t.list("grouping", n.Grouping)
		t.text("op", n.Op.String())
		t.node("param", n.Param)
		t.text("type", "aggregation")
		t.bool("without", n.Without)
		t.close()
	case *parser.BinaryExpr:
		t.binary(n)
	case *parser.Call:
		t.call(n)
	case *parser.MatrixSelector:
		t.matrix(n)
	case *parser.VectorSelector:
		t.open()
		t.selector(n, func() {})
		t.text("type", "vectorSelector")
		t.close()
	case *parser.SubqueryExpr:
		t.open()
		t.node("expr", n.Expr)
		t.millis("offset", n.OriginalOffset)
		t.duration("offsetExpr", n.OriginalOffsetExpr)
		t.millis("range", n.Range)
		t.duration("rangeExpr", n.RangeExpr)
		t.startOrEnd(n.StartOrEnd)
		t.millis("step", n.Step)
		t.duration("stepExpr", n.StepExpr)
		t.timestamp(n.Timestamp)
		t.text("type", "subquery")
		t.close()
	case *parser.DurationExpr:
		t.durationNode(n)
	case *parser.NumberLiteral:
		t.open()
		t.text("type", "numberLiteral")
		t.text("val", strconv.FormatFloat(n.Val, 'f', -1, 64))
		t.close()
	case *parser.StringLiteral:
		t.open()
		t.text("type", "stringLiteral")
		t.text("val", n.Val)
		t.close()
	case *parser.ParenExpr:
		t.open()
		t.node("expr", n.Expr)
		t.text("type", "parenExpr")
		t.close()
	case *parser.UnaryExpr:
		t.open()
		t.node("expr", n.Expr)
		t.text("op", n.Op.String())
		t.text("type", "unaryExpr")
		t.close()
	default:
		t.err = fmt.Errorf("expressions of type %T have no tree", e)
	}
}

func (t *treeEncoder) binary(n *parser.BinaryExpr) {
	t.open()
	t.bool("bool", n.ReturnBool)
	t.node("lhs", n.LHS)
	t.key("matching")
	if m := n.VectorMatching; m == nil {
		t.null()
	} else {
		t.open()
		t.text("card", m.Card.String())
		t.key("fillValues")
		t.open()
		t.number("lhs", m.FillValues.LHS)
		t.number("rhs", m.FillValues.RHS)
		t.close()
		t.list("include", m.Include)
		t.list("labels", m.MatchingLabels)
		t.bool("on", m.On)
		t.close()
	}
	t.text("op", n.Op.String())
	t.node("rhs", n.RHS)
	t.text("type", "binaryExpr")
	t.close()
}

// number appends a JSON number, which can be neither infinite nor NaN.
func (t *treeEncoder) number(name string, f *float64) {
	t.key(name)
	switch {
	case f == nil:
		t.null()
	case math.IsInf(*f, 0) || math.IsNaN(*f):
		t.err = fmt.Errorf("unsupported value: %f", *f)
	default:
		t.b = appendFloat(t.b, *f)
	}
}

func (t *treeEncoder) call(n *parser.Call) {
	t.open()
	t.key("args")
	t.b = append(t.b, '[')
	for i, arg := range n.Args {
		if i > 0 {
			t.b = append(t.b, ',')
		}
		t.expr(arg)
	}
	t.b = append(t.b, ']')
	t.key("func")
	t.open()
	t.key("argTypes")
	t.b = append(t.b, '[')
	for i, at := range n.Func.ArgTypes {
		if i > 0 {
			t.b = append(t.b, ',')
		}
		t.b = appendText(t.b, string(at))
	}
	t.b = append(t.b, ']')
	t.text("name", n.Func.Name)
	t.text("returnType", string(n.Func.ReturnType))
	t.int("variadic", int64(n.Func.Variadic))
	t.close()
	t.text("type", "call")
	t.close()
}

func (t *treeEncoder) matrix(n *parser.MatrixSelector) {
	vs, ok := n.VectorSelector.(*parser.VectorSelector)
	if !ok {
		t.err = fmt.Errorf("a range over %T has no tree", n.VectorSelector)
		return
	}
	t.open()
	t.selector(vs, func() {
		t.millis("range", n.Range)
		t.duration("rangeExpr", n.RangeExpr)
	})
	t.text("type", "matrixSelector")
	t.close()
}

// selector appends the fields of a selector; between appends those that a range selector has in the middle of
// the order.
func (t *treeEncoder) selector(n *parser.VectorSelector, between func()) {
	t.bool("anchored", n.Anchored)
	t.matchers(n.LabelMatchers)
	t.text("name", n.Name)
	t.millis("offset", n.OriginalOffset)
	t.duration("offsetExpr", n.OriginalOffsetExpr)
	between()
	t.bool("smoothed", n.Smoothed)
	t.startOrEnd(n.StartOrEnd)
	t.timestamp(n.Timestamp)
}

func (t *treeEncoder) matchers(list []*labels.Matcher) {
	t.key("matchers")
	t.b = append(t.b, '[')
	for i, m := range list {
		if i > 0 {
			t.b = append(t.b, ',')
		}
		t.open()
		t.text("name", m.Name)
		t.text("type", m.Type.String())
		t.text("value", m.Value)
		t.close()
	}
	t.b = append(t.b, ']')
}

func (t *treeEncoder) millis(name string, d time.Duration) { t.int(name, d.Milliseconds()) }

func (t *treeEncoder) startOrEnd(it parser.ItemType) {
	t.key("startOrEnd")
	if it == 0 {
		t.null()
		return
	}
	t.b = appendText(t.b, it.String())
}

func (t *treeEncoder) timestamp(ms *int64) {
	t.key("timestamp")
	if ms == nil {
		t.null()
		return
	}
	t.b = strconv.AppendInt(t.b, *ms, 10)
}

// duration appends a duration expression, or null, which is the common case.
func (t *treeEncoder) duration(name string, n *parser.DurationExpr) {
	t.key(name)
	t.durationNode(n)
}

func (t *treeEncoder) durationNode(n *parser.DurationExpr) {
	if n == nil {
		t.null()
		return
	}
	t.open()
	t.key("lhs")
	t.operand(n.LHS)
	t.text("op", n.Op.String())
	t.key("rhs")
	t.operand(n.RHS)
	t.text("type", "durationExpr")
	t.bool("wrapped", n.Wrapped)
	t.close()
}

// operand appends an operand of a duration expression.
func (t *treeEncoder) operand(e parser.Expr) {
	n, ok := e.(*parser.NumberLiteral)
	switch {
	case !ok:
		t.expr(e)
	case n == nil:
		t.null()
	default:
		t.open()
		t.bool("duration", n.Duration)
		t.text("type", "numberLiteral")
		t.text("val", strconv.FormatFloat(n.Val, 'f', -1, 64))
		t.close()
	}
}
