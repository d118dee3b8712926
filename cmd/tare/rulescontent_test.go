package main

import (
	"encoding/json"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"google.golang.org/grpc/codes"

	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/testwait"
)

// metricQueries returns the PromQL over /metrics of the dashboard, of its variables, and of the rules, by place. Names of
// recording rules are replaced by their expressions.
func metricQueries(t *testing.T) map[string]string {
	t.Helper()
	queries := make(map[string]string)
	text, err := os.ReadFile("../../deploy/grafana/dashboards/tare.json")
	must(t, err)
	var d dashboard
	must(t, json.Unmarshal(text, &d))
	variables := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$job", "tare.*")
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			if !historySeries.MatchString(target.Expr) {
				queries["panel "+p.Title+": "+target.Expr] = variables.Replace(target.Expr)
			}
		}
	}
	panels := len(queries)
	const file = "../../deploy/prometheus/rules.yaml"
	groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	records := make([]string, 0, 20)
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				records = append(records, r.Record, "("+strings.NewReplacer(records...).Replace(r.Expr)+")")
			}
		}
	}
	recorded := strings.NewReplacer(records...)
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			queries["rule "+r.Record+r.Alert+": "+r.Expr] = recorded.Replace(r.Expr)
		}
	}
	if panels < 50 || len(queries)-panels < 40 {
		t.Errorf("%d panels and %d rules", panels, len(queries)-panels)
	}
	return queries
}

// withoutConditions returns an expression without its comparisons with numbers, and those of which it lacks the series.
func withoutConditions(e parser.Expr) (kept parser.Expr, lacked []parser.Expr) {
	switch e := e.(type) {
	case *parser.ParenExpr:
		inner, lacked := withoutConditions(e.Expr)
		return &parser.ParenExpr{Expr: inner}, lacked
	case *parser.AggregateExpr:
		inner, lacked := withoutConditions(e.Expr)
		c := *e
		c.Expr = inner
		return &c, lacked
	case *parser.BinaryExpr:
		left, lacked := withoutConditions(e.LHS)
		if e.Op.IsComparisonOperator() && e.RHS.Type() == parser.ValueTypeScalar {
			return left, lacked
		}
		right, more := withoutConditions(e.RHS)
		lacked = append(lacked, more...)
		if e.Op == parser.LUNLESS {
			return left, append(lacked, right)
		}
		c := *e
		c.LHS, c.RHS = left, right
		return &c, lacked
	}
	return e, nil
}

// A preparedMetric is a metric with its series, whose values are dropped.
type preparedMetric struct {
	kind   string
	series []labels.Labels
}

// prepared returns the metrics of all servers after their start. Of a metric that has no series yet, a series for each
// combination of values is added that a matcher of the queries requires: such a value must occur in the sources.
func prepared(t *testing.T, queries map[string]string) map[string]*preparedMetric {
	t.Helper()
	all := openAll(t)
	metrics := make(map[string]*preparedMetric)
	for job, registry := range map[string]interface {
		Gather() ([]*dto.MetricFamily, error)
	}{"tare": all.serve, "tare-history": all.history, "tare-store": all.store, "tare-frontend": all.frontend, "tare-copy": all.copy, "tare-alter": all.alter} {
		families, err := registry.Gather()
		must(t, err)
		for _, f := range families {
			m := metrics[f.GetName()]
			if m == nil {
				m = &preparedMetric{kind: strings.ToLower(f.GetType().String())}
				metrics[f.GetName()] = m
			}
			for _, one := range f.GetMetric() {
				b := labels.NewBuilder(labels.FromStrings("job", job, "instance", "a"))
				for _, l := range one.GetLabel() {
					b.Set(l.GetName(), l.GetValue())
				}
				m.series = append(m.series, b.Labels())
			}
		}
	}
	for _, section := range metricSections(t) {
		for _, l := range section.lines {
			if metrics[l.name] == nil && l.kind != "native histogram" {
				metrics[l.name] = &preparedMetric{kind: l.kind}
			}
		}
	}
	metrics["up"] = &preparedMetric{kind: "gauge", series: []labels.Labels{
		labels.FromStrings("job", "tare", "instance", "a"), labels.FromStrings("job", "tare-copy", "instance", "a"), labels.FromStrings("job", "tare-alter", "instance", "a"),
	}}
	known := knownTexts(t)
	for where, query := range queries {
		e, err := parser.NewParser(parser.Options{}).ParseExpr(query)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
			if v, ok := n.(*parser.VectorSelector); ok {
				addSeries(t, metrics, v, known, where)
			}
			return nil
		})
	}
	return metrics
}

// addSeries adds series that a selector selects, unless the metric has one.
func addSeries(t *testing.T, metrics map[string]*preparedMetric, v *parser.VectorSelector, known map[string]bool, where string) {
	t.Helper()
	name := v.Name
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if m := metrics[strings.TrimSuffix(name, suffix)]; m != nil && m.kind == "histogram" {
			name = strings.TrimSuffix(name, suffix)
		}
	}
	m := metrics[name]
	if m == nil {
		t.Errorf("%s: there is no metric %s", where, name)
		return
	}
	selected := func(ls labels.Labels) bool {
		return !slices.ContainsFunc(v.LabelMatchers, func(m *labels.Matcher) bool {
			return m.Name != labels.MetricName && !m.Matches(ls.Get(m.Name))
		})
	}
	if slices.ContainsFunc(m.series, selected) {
		return
	}
	job := "tare"
	if strings.HasPrefix(name, "tare_copy_") || strings.HasPrefix(name, "tare_alter_") {
		job = "tare-alter" // its lock has the metrics of a copy too
	}
	added := []labels.Labels{labels.FromStrings("job", job, "instance", "a")}
	for _, matcher := range v.LabelMatchers {
		if matcher.Name == labels.MetricName || matcher.Name == "job" {
			continue
		}
		var values []string
		switch matcher.Type {
		case labels.MatchEqual:
			values = []string{matcher.Value}
		case labels.MatchRegexp:
			values = strings.Split(strings.ReplaceAll(matcher.Value, "5..", "500"), "|")
		default:
			values = []string{"other"}
		}
		var next []labels.Labels
		for _, value := range values {
			if (matcher.Type == labels.MatchEqual || matcher.Type == labels.MatchRegexp) && !known[value] {
				t.Errorf("%s: no source has the value %q of %s", where, value, matcher.Name)
			}
			for _, ls := range added {
				next = append(next, labels.NewBuilder(ls).Set(matcher.Name, value).Labels())
			}
		}
		added = next
	}
	m.series = append(m.series, added...)
}

// knownTexts returns the string literals of the sources, the codes of gRPC and the status of a failed HTTP request.
func knownTexts(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{"500": true}
	for c := range codes.Code(17) {
		known[c.String()] = true
	}
	literal := regexp.MustCompile(`"([^"\\\n]+)"`)
	must(t, fs.WalkDir(os.DirFS("../.."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != "." || name == "e2e" || name == "bench" || name == "bin") {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		if d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(filepath.Join("../..", name))
		for _, m := range literal.FindAllSubmatch(text, -1) {
			known[string(m[1])] = true
		}
		return err
	}))
	return known
}

const (
	preparedStart = int64(1_700_000_000_000)
	preparedStep  = 60_000
	preparedCount = 70 // samples of each series
)

// writePrepared writes a block with the metrics: counters grow, gauges are 1.
func writePrepared(t *testing.T, dir string, metrics map[string]*preparedMetric) {
	t.Helper()
	var series []testblock.Series
	seen := make(map[string]bool)
	add := func(ls labels.Labels, name, le string, counter bool) {
		b := labels.NewBuilder(ls).Set(labels.MetricName, name)
		if le != "" {
			b.Set("le", le)
		}
		own := testblock.Series{Labels: b.Labels()}
		if seen[own.Labels.String()] {
			return
		}
		seen[own.Labels.String()] = true
		for i := range int64(preparedCount) {
			v := 1.0
			if counter {
				v = float64(i + 1)
			}
			own.Samples = append(own.Samples, testblock.Sample{T: preparedStart + i*preparedStep, V: v})
		}
		series = append(series, own)
	}
	for name, m := range metrics {
		for _, ls := range m.series {
			if m.kind != "histogram" {
				add(ls, name, "", m.kind == "counter")
				continue
			}
			for _, le := range []string{"0.001", "0.1", "10", "+Inf"} {
				add(ls, name+"_bucket", le, true)
			}
			add(ls, name+"_sum", "", true)
			add(ls, name+"_count", "", true)
		}
	}
	slices.SortFunc(series, func(a, b testblock.Series) int { return labels.Compare(a.Labels, b.Labels) })
	_, err := testblock.Write(dir, slices.Values(series), testblock.Options{ChunkRange: 2 * preparedCount * preparedStep})
	must(t, err)
}

// TestDashboardAndRuleQueries runs the queries over /metrics of the dashboard and the rules in `tare store`, over a block
// with the metrics of all servers: each returns series, and no warning or info. Of alerts it runs the expressions that
// are compared with a number.
func TestDashboardAndRuleQueries(t *testing.T) {
	queries := metricQueries(t)
	dir := t.TempDir()
	writePrepared(t, dir, prepared(t, queries))
	s := startCommand(t, "store listens", "store", "--bucket", "file://"+dir, "--layout", "prometheus", "--grpc", "off", "--data-dir", t.TempDir())
	testwait.Until(t, "the first sync", func() bool {
		resp, _ := do(t, getRequest(t, s.http+"/-/ready"), "")
		return resp.StatusCode == http.StatusOK
	})
	end := strconv.FormatInt((preparedStart+(preparedCount-1)*preparedStep)/1000, 10)
	for where, query := range queries {
		e, err := parser.NewParser(parser.Options{}).ParseExpr(query)
		must(t, err)
		kept, lacked := withoutConditions(e)
		for _, e := range append([]parser.Expr{kept}, lacked...) {
			resp, body := do(t, getRequest(t, s.http+"/api/v1/query?time="+end+"&query="+url.QueryEscape(e.String())), "")
			var r struct {
				Data            struct{ Result []json.RawMessage }
				Warnings, Infos []string
			}
			if err := json.Unmarshal([]byte(body), &r); err != nil || resp.StatusCode != http.StatusOK || len(r.Data.Result) == 0 || len(r.Warnings)+len(r.Infos) > 0 {
				t.Errorf("%s\n%s: %d %.500s", where, e, resp.StatusCode, body)
			}
		}
	}
}
