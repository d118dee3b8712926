package promapi

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
)

// A treeNode is a node of a parsed expression, as JSON.
type treeNode map[string]any

func (n treeNode) node(name string) treeNode { return n[name].(map[string]any) }

func (n treeNode) texts(name string) (texts []string) {
	for _, v := range n[name].([]any) {
		texts = append(texts, v.(string))
	}
	return texts
}

func (n treeNode) duration(name string) string {
	return (time.Duration(n[name].(float64)) * time.Millisecond).String()
}

// modifiers returns the offset and the time of a selector or subquery.
func (n treeNode) modifiers() (text string) {
	if at := n["timestamp"]; at != nil {
		text += fmt.Sprintf(" @ %.3f", at.(float64)/1000)
	}
	if of := n["startOrEnd"]; of != nil {
		text += " @ " + of.(string) + "()"
	}
	if n["offset"].(float64) != 0 {
		text += " offset " + n.duration("offset")
	}
	return text
}

// promql returns the expression of a tree.
func (n treeNode) promql() string {
	switch n["type"] {
	case "numberLiteral":
		return n["val"].(string)
	case "stringLiteral":
		return strconv.Quote(n["val"].(string))
	case "parenExpr":
		return "(" + n.node("expr").promql() + ")"
	case "unaryExpr":
		return n["op"].(string) + n.node("expr").promql()
	case "aggregation":
		by := "by"
		if n["without"].(bool) {
			by = "without"
		}
		param := ""
		if n["param"] != nil {
			param = n.node("param").promql() + ", "
		}
		return fmt.Sprintf("%s %s (%s) (%s%s)", n["op"], by, strings.Join(n.texts("grouping"), ", "), param, n.node("expr").promql())
	case "call":
		var args []string
		for _, a := range n["args"].([]any) {
			args = append(args, treeNode(a.(map[string]any)).promql())
		}
		return n.node("func")["name"].(string) + "(" + strings.Join(args, ", ") + ")"
	case "binaryExpr":
		op := n["op"].(string)
		if n["bool"].(bool) {
			op += " bool"
		}
		if n["matching"] != nil {
			m := n.node("matching")
			on := "ignoring"
			if m["on"].(bool) {
				on = "on"
			}
			op += fmt.Sprintf(" %s (%s)", on, strings.Join(m.texts("labels"), ", "))
			switch m["card"] {
			case "many-to-one":
				op += " group_left (" + strings.Join(m.texts("include"), ", ") + ")"
			case "one-to-many":
				op += " group_right (" + strings.Join(m.texts("include"), ", ") + ")"
			}
		}
		return n.node("lhs").promql() + " " + op + " " + n.node("rhs").promql()
	case "vectorSelector", "matrixSelector":
		var ms []string
		for _, m := range n["matchers"].([]any) {
			of := m.(map[string]any)
			ms = append(ms, fmt.Sprintf("%s%s%q", of["name"], of["type"], of["value"]))
		}
		text := "{" + strings.Join(ms, ",") + "}"
		if n["type"] == "matrixSelector" {
			text += "[" + n.duration("range") + "]"
		}
		return text + n.modifiers()
	case "subquery":
		return n.node("expr").promql() + "[" + n.duration("range") + ":" + n.duration("step") + "]" + n.modifiers()
	}
	return fmt.Sprintf("unknown type %v", n["type"])
}

// TestParseQuery rebuilds expressions from their trees.
func TestParseQuery(t *testing.T) {
	none := storage.QueryableFunc(func(int64, int64) (storage.Querier, error) { return storage.NoopQuerier(), nil })
	api, err := New(Options{Queryable: none, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	parse := parser.NewParser(parser.Options{})
	for _, text := range []string{
		"1", "-1.5", "+Inf", "NaN", `"a\"b"`, "(1)", "-up", "time()", "up", `up{a="b",c!="d",e=~"f",g!~"h"}`, "up[5m]", "up offset 5m", "up offset -5m", "up @ 1.5", "up @ start()", "up[5m] @ end() offset 1h",
		"sum(up)", "sum by (a, b) (up)", "sum without (a) (up)", "topk(3, up)", `count_values("x", up)`, "quantile by (a) (0.5, up)",
		"rate(up[5m])", "histogram_quantile(0.9, rate(x[1m]))", `label_replace(up, "a", "$1", "b", "(.*)")`, "round(up)", "round(up, 5)", "clamp(up, 1, 2)",
		"a + b", "a > bool 1", "1 + 2 * 3", "a and on (x) b", "a or b", "a unless ignoring (x, y) b", "a * on (x) group_left (y) b", "a / ignoring (x) group_right () b", "a ^ 2 % 3", "a == b", "a atan2 b",
		"rate(up[5m])[30m:1m]", "max_over_time(up[30m:1m] offset 1d)", "up[1h:5m] @ 100", "sum(rate(a[1m])) by (x) / on (x) group_left sum(rate(b[1m])) by (x)",
	} {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/parse_query?query="+url.QueryEscape(text), nil))
		var response struct{ Data treeNode }
		if err := json.Unmarshal(w.Body.Bytes(), &response); err != nil || w.Code != http.StatusOK {
			t.Errorf("%s: %d %s (%v)", text, w.Code, w.Body, err)
			continue
		}
		want, err := parse.ParseExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		rebuilt := response.Data.promql()
		got, err := parse.ParseExpr(rebuilt)
		if err != nil || withoutMetricName(got.String()) != withoutMetricName(want.String()) {
			t.Errorf("%s: the tree is of %s (%v): %s", text, rebuilt, err, w.Body)
		}
	}
}

// withoutMetricName returns an expression with each metric name as a matcher does.
func withoutMetricName(text string) string {
	for _, name := range []string{"up", "a", "b", "x"} {
		text = strings.ReplaceAll(text, `{__name__="`+name+`"}`, name)
		text = strings.ReplaceAll(text, `{__name__="`+name+`",`, name+"{")
	}
	return text
}
