package testpromql

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// A Generator generates expressions over series.
type Generator struct {
	rand       *rand.Rand
	series     []labels.Labels
	names      []string // of labels, without __name__
	start, end int64    // milliseconds
}

// New returns a Generator of expressions over series with samples from start to end, in milliseconds.
func New(r *rand.Rand, series []labels.Labels, start, end int64) *Generator {
	g := &Generator{rand: r, series: series, start: start, end: end}
	for _, ls := range series {
		ls.Range(func(l labels.Label) {
			if l.Name != model.MetricNameLabel && !slices.Contains(g.names, l.Name) {
				g.names = append(g.names, l.Name)
			}
		})
	}
	slices.Sort(g.names)
	return g
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// Time returns a time within the samples, or a little beyond, in milliseconds.
func (g *Generator) Time() int64 {
	span := g.end - g.start
	return g.start - span/10 + g.rand.Int64N(span+span/5)
}

// Expr returns an expression of any type that a query may have.
func (g *Generator) Expr() string {
	if g.rand.IntN(12) == 0 {
		return g.scalar(2)
	}
	return g.vector(1 + g.rand.IntN(4))
}

// label returns a name and a value of one of the series, or a nonexistent one.
func (g *Generator) label() (name, value string) {
	name = pick(g.rand, g.names...)
	if g.rand.IntN(10) == 0 {
		return pick(g.rand, name, "absent"), pick(g.rand, "", "absent")
	}
	return name, g.series[g.rand.IntN(len(g.series))].Get(name)
}

// Matcher returns a matcher of a label.
func (g *Generator) Matcher() string {
	name, value := g.label()
	_, other := g.label()
	switch g.rand.IntN(8) {
	case 0:
		return fmt.Sprintf("%s!=%q", name, value)
	case 1:
		return fmt.Sprintf("%s=~%q", name, regexp.QuoteMeta(value)+"|"+regexp.QuoteMeta(other))
	case 2:
		return fmt.Sprintf("%s!~%q", name, regexp.QuoteMeta(value)+"|"+regexp.QuoteMeta(other))
	case 3:
		return fmt.Sprintf("%s=~%q", name, pick(g.rand, ".*", ".+", "", "[a-m].*", "(?i)API|DB", ".*[0-9]", "(api|db|node)", "host-00.*"))
	case 4:
		return fmt.Sprintf("%s!~%q", name, pick(g.rand, ".+", "[a-m].*", "(?i)API|DB", ".*0"))
	}
	return fmt.Sprintf("%s=%q", name, value)
}

// Selector returns a selector of a metric, or of several.
func (g *Generator) Selector() string {
	metric := g.series[g.rand.IntN(len(g.series))].Get(model.MetricNameLabel)
	var matchers []string
	for range g.rand.IntN(3) {
		matchers = append(matchers, g.Matcher())
	}
	if g.rand.IntN(8) == 0 {
		matchers = append(matchers, fmt.Sprintf("__name__=~%q", pick(g.rand, metric+"|metric_0", "metric_[0-2]", ".+")))
		metric = ""
	}
	if len(matchers) == 0 {
		return metric
	}
	return metric + "{" + strings.Join(matchers, ",") + "}"
}

func (g *Generator) modifiers() string {
	text := ""
	if g.rand.IntN(6) == 0 {
		text += " offset " + pick(g.rand, "", "-") + g.duration()
	}
	if g.rand.IntN(8) == 0 {
		text += " @ " + pick(g.rand, "start()", "end()", fmt.Sprintf("%d.%03d", g.start/1000+g.rand.Int64N((g.end-g.start)/1000+1), g.rand.IntN(1000)))
	}
	return text
}

func (g *Generator) duration() string {
	return pick(g.rand, "15s", "1m", "90s", "5m", "17m", "1h", "1m30s500ms", "(2*1m)")
}

func (g *Generator) number() string {
	return pick(g.rand, "0", "1", "-1", "2.5", "1e3", "0x1F", "Inf", "NaN", "-Inf", "1_000", strconv.FormatFloat(g.rand.NormFloat64(), 'g', -1, 64))
}

func (g *Generator) scalar(depth int) string {
	if depth <= 0 {
		return pick(g.rand, g.number(), g.number(), "time()", "pi()")
	}
	switch g.rand.IntN(4) {
	case 0:
		return "scalar(" + g.vector(depth-1) + ")"
	case 1:
		return "(" + g.scalar(depth-1) + " " + pick(g.rand, "+", "-", "*", "/", "%", "^", "atan2", "== bool", "< bool", ">= bool") + " " + g.scalar(depth-1) + ")"
	}
	return g.scalar(0)
}

// matrix returns a range vector.
func (g *Generator) matrix(depth int) string {
	if depth > 1 && g.rand.IntN(4) == 0 {
		return fmt.Sprintf("(%s)[%s:%s]%s", g.vector(depth-2), pick(g.rand, "5m", "10m", "20m"), pick(g.rand, "", "1m", "37s"), g.modifiers())
	}
	return g.Selector() + "[" + pick(g.rand, "30s", "1m", "5m", "9m59s", "1h") + "]" + g.modifiers()
}

func (g *Generator) grouping(keyword ...string) string {
	var names []string
	for range g.rand.IntN(3) {
		names = append(names, pick(g.rand, append(g.names, "absent")...))
	}
	return pick(g.rand, keyword...) + " (" + strings.Join(names, ", ") + ")"
}

func (g *Generator) vector(depth int) string {
	if depth <= 0 {
		return g.Selector() + g.modifiers()
	}
	switch g.rand.IntN(10) {
	case 0, 1, 2:
		return g.overTime(depth)
	case 3, 4:
		return g.aggregation(depth)
	case 5, 6:
		return g.function(depth)
	case 7, 8:
		return g.binary(depth)
	}
	return pick(g.rand, "-", "", "+") + "(" + g.vector(depth-1) + ")"
}

func (g *Generator) overTime(depth int) string {
	switch g.rand.IntN(6) {
	case 0:
		return fmt.Sprintf("quantile_over_time(%s, %s)", g.scalar(depth-2), g.matrix(depth))
	case 1:
		return fmt.Sprintf("predict_linear(%s, %s)", g.matrix(depth), g.scalar(depth-2))
	}
	return fmt.Sprintf("%s(%s)", pick(g.rand, "rate", "rate", "increase", "increase", "delta", "irate", "idelta", "deriv", "changes", "resets",
		"avg_over_time", "sum_over_time", "min_over_time", "max_over_time", "count_over_time", "stddev_over_time", "stdvar_over_time",
		"last_over_time", "present_over_time", "absent_over_time"), g.matrix(depth))
}

func (g *Generator) aggregation(depth int) string {
	by := ""
	if g.rand.IntN(4) > 0 {
		by = " " + g.grouping("by", "without")
	}
	arg := g.vector(depth - 1)
	switch g.rand.IntN(6) {
	case 0:
		return fmt.Sprintf("%s%s (%s, %s)", pick(g.rand, "topk", "bottomk"), by, pick(g.rand, "1", "3", "0", "1000", "2.9"), arg)
	case 1:
		return fmt.Sprintf("quantile%s (%s, %s)", by, g.number(), arg)
	case 2:
		return fmt.Sprintf("count_values%s (%q, %s)", by, pick(g.rand, "value", "zone"), arg)
	}
	return fmt.Sprintf("%s%s (%s)", pick(g.rand, "sum", "avg", "min", "max", "count", "group", "stddev", "stdvar"), by, arg)
}

func (g *Generator) function(depth int) string {
	arg := g.vector(depth - 1)
	switch g.rand.IntN(11) {
	case 0:
		return fmt.Sprintf("histogram_quantile(%s, %s)", g.scalar(depth-2), arg)
	case 1:
		return fmt.Sprintf("%s(%s)", pick(g.rand, "histogram_count", "histogram_sum", "histogram_avg", "histogram_stddev", "histogram_stdvar"), arg)
	case 2:
		return fmt.Sprintf("histogram_fraction(%s, %s, %s)", g.number(), g.number(), arg)
	case 3:
		name, _ := g.label()
		return fmt.Sprintf(`label_replace(%s, %q, %q, %q, "(.*)(.).*")`, arg, pick(g.rand, "made", name), pick(g.rand, "$1-$2", "x", ""), name)
	case 4:
		return fmt.Sprintf(`label_join(%s, "made", %q, %q)`, arg, pick(g.rand, "-", ""), pick(g.rand, g.names...))
	case 5:
		return fmt.Sprintf("%s(%s)", pick(g.rand, "sort", "sort_desc", "timestamp", "absent", "hour", "day_of_month", "month", "minute"), arg)
	case 6:
		return fmt.Sprintf("%s(%s, %s)", pick(g.rand, "clamp_max", "clamp_min", "round"), arg, g.scalar(depth-2))
	case 7:
		return fmt.Sprintf("clamp(%s, %s, %s)", arg, g.number(), g.number())
	case 8:
		return "vector(" + g.scalar(depth-1) + ")"
	}
	return fmt.Sprintf("%s(%s)", pick(g.rand, "abs", "ceil", "floor", "exp", "ln", "log2", "log10", "sqrt", "sgn", "sin", "cosh", "deg"), arg)
}

func (g *Generator) binary(depth int) string {
	left, right := g.vector(depth-1), g.vector(depth-1)
	switch g.rand.IntN(5) {
	case 0:
		right = g.scalar(depth - 1)
	case 1:
		return fmt.Sprintf("(%s %s %s %s)", left, pick(g.rand, "and", "or", "unless"), pick(g.rand, "", g.grouping("on", "ignoring")), right)
	case 2: // the same series on both sides
		right = left
	case 3:
		on := g.grouping("on", "ignoring")
		return fmt.Sprintf("(%s %s %s %s (%s) %s)", left, pick(g.rand, "*", "-", "/", "=="), on, pick(g.rand, "group_left", "group_right"), pick(g.rand, "", "made"), right)
	}
	op := pick(g.rand, "+", "-", "*", "/", "%", "^", "atan2", "==", "!=", ">", "<", ">=", "<=", "== bool", "> bool")
	return fmt.Sprintf("(%s %s %s)", left, op, right)
}
