package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/internal/web/memory"
	"github.com/taredb/tare/move/alter"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/web"
)

const metricsPage = "../../docs/reference/metrics.md"

const metricsIntro = `# Metrics

Which metrics does each server have at ` + "`/metrics`" + ` of its ` + "`--http`" + ` address? The number of series does not depend on the
workload: metrics per digest are in the [history](history.md), whose series are the last list below.

Names with ` + "`_total`" + ` are counters, others gauges, unless a line names another type. Labels follow *by*. Each server also has
` + "`process_…`, `go_…`" + ` and ` + "`go_build_info`" + `. [deploy/prometheus](../../deploy/prometheus) has recording rules and alerts,
[deploy/grafana](../../deploy/grafana) a dashboard.
`

// A metricLine is a metric on the page.
type metricLine struct{ name, kind, labels, help string }

// metricSection are the metrics of one command.
type metricSection struct {
	title, text string
	lines       []metricLine
}

// TestMetricsPage compares the page with the metrics that the servers register.
func TestMetricsPage(t *testing.T) {
	var page bytes.Buffer
	page.WriteString(metricsIntro)
	for _, s := range metricSections(t) {
		if len(s.lines) == 0 {
			continue
		}
		fmt.Fprintf(&page, "\n## %s\n\n", s.title)
		if s.text != "" {
			fmt.Fprintf(&page, "%s\n\n", s.text)
		}
		for _, l := range s.lines {
			fmt.Fprintf(&page, "- `%s`", l.name)
			if total := strings.HasSuffix(l.name, "_total"); total && l.kind != "counter" || !total && l.kind != "gauge" {
				fmt.Fprintf(&page, ", %s", l.kind)
			}
			if l.help != "" && l.labels != "" {
				fmt.Fprintf(&page, " by %s", l.labels)
			}
			if l.help != "" {
				help, _, _ := strings.Cut(l.help, " Absent: ") // its section says so
				fmt.Fprintf(&page, ": %s", strings.TrimSuffix(help, "."))
			}
			page.WriteString("\n")
		}
	}
	if *rewrite {
		must(t, os.WriteFile(metricsPage, page.Bytes(), 0o644))
	}
	got, err := os.ReadFile(metricsPage)
	must(t, err)
	if d := diff.Diff(page.String(), string(got)); d != "" {
		t.Errorf("docs/reference/metrics.md is stale: run make generate\n%s", d)
	}
}

// registries are those of all commands, whose servers are open.
type registries struct{ serve, history, store, frontend, rowstream, copy, alter *server.Registry }

// openAll opens each server.
func openAll(t *testing.T) registries {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	dir := t.TempDir()
	bucket := filepath.Join(dir, "bucket")
	must(t, os.Mkdir(bucket, 0o700))
	options := func(c config.Command, flags map[string]string) {
		t.Helper()
		_, err := c.Load(config.Input{Flags: flags})
		must(t, err)
	}

	o := config.NewServe()
	accounts := filepath.Join(dir, "accounts")
	must(t, os.WriteFile(accounts, []byte("app: secret\n"), 0o600))
	options(o, map[string]string{
		"listen": "127.0.0.1:0", "http": "127.0.0.1:0",
		"bucket": "file://" + bucket, "data-dir": filepath.Join(dir, "serve"), "return-idle-memory": "1m", "history-remote-write": "http://127.0.0.1:1/api/v1/write",
		"standby": "mysql://127.0.0.1:1", "standby-accounts": accounts, "control": "mysql://tare:secret@127.0.0.1:1",
	})
	serve := opened(t, newService(*o, log))
	serve.backend.set(nil) // as after the first check

	so := config.NewStore()
	options(so, map[string]string{"http": "127.0.0.1:0", "bucket": "file://" + bucket, "data-dir": filepath.Join(dir, "store"), "cache-dir": filepath.Join(dir, "cache"), "cache-size": "1MiB", "cache-memcached": "127.0.0.1:1"})
	store := opened(t, newStoreService(*so, log))

	fo := config.NewFrontend()
	options(fo, map[string]string{"http": "127.0.0.1:0", "downstream": "http://127.0.0.1:1"})
	front := opened(t, newFrontendService(fo, log))
	copies := newCopyServer("copy", config.NewCopy().HTTPAccess, &copier.Metrics{}, log)
	copies.Metrics.MustRegister(memory.NewLedger((&copyPages{}).heapOwners()...))
	return registries{
		serve: serve.Metrics, history: serve.history.registry, store: store.Metrics, frontend: front.Metrics, rowstream: rowstreamMetrics(t),
		copy:  copies.Metrics,
		alter: newCopyServer("alter", config.NewAlter().HTTPAccess, &alter.Monitor{}, log).Metrics,
	}
}

// metricSections reads the registry of each server.
func metricSections(t *testing.T) []metricSection {
	t.Helper()
	all := openAll(t)
	shared, own := metricsOf(t, all.rowstream), func(r *server.Registry) []metricLine { return metricsOf(t, r) }
	shared = slices.DeleteFunc(shared, func(l metricLine) bool { return !strings.HasPrefix(l.name, "tare_querylog_") })
	without := func(lines, gone []metricLine) []metricLine {
		return slices.DeleteFunc(lines, func(l metricLine) bool {
			return slices.ContainsFunc(gone, func(g metricLine) bool { return g.name == l.name })
		})
	}
	const ofKey = "`digest`, `schema`, `user`, `backend`"
	copied := own(all.copy)
	series := make([]metricLine, 0, stmtseries.NumMetrics)
	for n := range stmtseries.NumMetrics {
		m, kind := stmtseries.Metric(n), "counter"
		switch m {
		case stmtseries.Duration:
			kind = "native histogram"
		case stmtseries.Info:
			kind = "gauge"
		}
		labels, _ := strings.CutPrefix(backquoted(m.Labels()), ofKey)
		series = append(series, metricLine{m.String(), kind, strings.TrimPrefix(labels, ", "), m.Help()})
	}
	commands := make(map[string]string)
	several := func(sections []metricSection) (common []metricSection) {
		lines := make(map[string][]metricLine)
		for _, s := range sections {
			for _, l := range s.lines {
				if commands[l.name] != "" {
					commands[l.name] += ", "
				}
				commands[l.name] += strings.TrimPrefix(s.title, "tare ")
			}
		}
		for _, s := range sections {
			for _, l := range s.lines {
				in := commands[l.name]
				if other := lines[in]; strings.Contains(in, ",") && !slices.Contains(other, l) {
					lines[in] = append(other, l)
				}
			}
		}
		for _, in := range slices.Sorted(maps.Keys(lines)) {
			common = append(common, metricSection{title: "Of " + in, lines: lines[in]})
		}
		return common
	}
	sections := []metricSection{
		{"tare serve", "", without(own(all.serve), shared)},
		{"tare serve with a history", "With `--bucket`, in addition: writing, uploading and querying the history; with `--history-remote-write`, sending it. " +
			"Its bucket has the `tare_store_…` metrics of tare store, its PromQL the `tare_prometheus_engine_…` ones.", without(own(all.history), own(all.store))},
		{"tare store", "The `tare_prometheus_engine_…` and `tare_objstore_…` ones are those of PromQL's engine and of Thanos' library for buckets; `# HELP` of `/metrics` describes them.", without(own(all.store), shared)},
		{"tare frontend", "", without(own(all.frontend), shared)},
		{"tare rowstream", "", without(own(all.rowstream), shared)},
		{"tare copy", "With `--http`; of `tare alter` too. Gauges that are unknown, or do not apply, are absent.", copied},
		{"tare alter", "With `--http`, besides those of tare copy. Gauges that do not apply are absent.", without(own(all.alter), copied)},
	}
	common := several(sections)
	for i := range sections {
		for _, c := range common {
			sections[i].lines = without(sections[i].lines, c.lines)
		}
		for n, l := range sections[i].lines {
			if strings.HasPrefix(l.name, "tare_prometheus_engine_") || strings.HasPrefix(l.name, "tare_objstore_") {
				sections[i].lines[n].help = "" // of other projects
			}
		}
	}
	sections = slices.Concat([]metricSection{{"Of every server", "", shared}}, common, sections)
	return append(sections, metricSection{"The history's series", "Not on `/metrics`: queried by PromQL at `/api/v1/query`, or in Grafana. Each has the labels of `--history-labels`, `instance` among them, " +
		"and all but the last " + ofKey + ".", series})
}

// rowstreamMetrics returns the metrics of tare rowstream, which opens only with a source.
func rowstreamMetrics(t *testing.T) *server.Registry {
	t.Helper()
	queries, err := querylog.New(querylog.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, queries.Close(context.Background())) })
	rows, err := wire.NewService(wire.ServiceOptions{Server: &binlog.Direct{}})
	must(t, err)
	s := newRowstreamService(config.NewRowstream(), slog.New(slog.DiscardHandler))
	s.Metrics.MustRegister(server.NewQueryLogCollector(queries), newRowstreamCollector(rows))
	return s.Metrics
}

var descPattern = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: (".*"), constLabels: \{.*\}, variableLabels: \{(.*)\}\}$`)

// metricsOf returns the metrics of a registry, including those without a value, except Go's and the
// process's.
func metricsOf(t *testing.T, r *server.Registry) []metricLine {
	t.Helper()
	lines := make(map[string]metricLine)
	for _, c := range r.Collectors() {
		descs, metrics := make(chan *prometheus.Desc, 1000), make(chan prometheus.Metric, 10_000)
		c.Describe(descs)
		c.Collect(metrics)
		close(descs)
		close(metrics)
		kinds := make(map[string]string)
		labels := make(map[string]string) // of constant labels too
		for m := range metrics {
			var d dto.Metric
			must(t, m.Write(&d))
			kinds[m.Desc().String()] = kindOf(&d)
			var names []string
			for _, l := range d.GetLabel() {
				names = append(names, l.GetName())
			}
			labels[m.Desc().String()] = backquoted(names)
		}
		for d := range descs {
			parts := descPattern.FindStringSubmatch(d.String())
			if parts == nil {
				t.Fatalf("a metric describes itself as %s", d)
			}
			l := metricLine{name: parts[1], kind: kinds[d.String()], labels: labels[d.String()]}
			if _, err := fmt.Sscanf(parts[2], "%q", &l.help); err != nil {
				t.Fatalf("help %s: %v", parts[2], err)
			}
			if strings.HasPrefix(l.name, "go_") || strings.HasPrefix(l.name, "process_") {
				continue
			}
			if l.labels == "" && parts[3] != "" {
				l.labels = backquoted(strings.Split(parts[3], ","))
			}
			if l.kind == "" {
				l.kind = kindOfVec(c, l.name)
			}
			if l.kind == "" || l.help == "" {
				t.Errorf("%s: type %q, help %q; collector %T", l.name, l.kind, l.help, c)
			}
			lines[l.name] = l
		}
	}
	var out []metricLine
	for _, l := range lines {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b metricLine) int { return cmp.Compare(a.name, b.name) })
	return out
}

func kindOf(m *dto.Metric) string {
	switch {
	case m.Counter != nil:
		return "counter"
	case m.Gauge != nil:
		return "gauge"
	case m.Histogram != nil:
		return "histogram"
	case m.Summary != nil:
		return "summary"
	}
	return ""
}

// kindOfVec returns the type of a metric that has labels and no value yet.
func kindOfVec(c prometheus.Collector, name string) string {
	switch c.(type) {
	case *prometheus.CounterVec:
		return "counter"
	case *prometheus.GaugeVec:
		return "gauge"
	case *prometheus.HistogramVec:
		return "histogram"
	case *prometheus.SummaryVec:
		return "summary"
	}
	if strings.HasSuffix(name, "_total") {
		return "counter"
	}
	switch c.(type) {
	case *copier.Metrics, *alter.Monitor, *web.RiseWatch: // their gauges without values are absent
		return "gauge"
	}
	if strings.HasPrefix(name, "tare_pool_") {
		return "gauge"
	}
	return ""
}

func backquoted(names []string) string {
	var out []string
	for _, n := range names {
		out = append(out, "`"+n+"`")
	}
	return strings.Join(out, ", ")
}

// TestMetricNames searches the page for each metric name in the sources, so that a metric that is collected
// only sometimes is not missed.
func TestMetricNames(t *testing.T) {
	page, err := os.ReadFile(metricsPage)
	must(t, err)
	whole := regexp.MustCompile(`"(tare_[a-z0-9_]+)"`)
	n := 0
	for _, pattern := range []string{"../../gateway/*.go", "../../move/copier/*.go", "../../store/storegateway/*.go", "../../internal/web/memory/*.go", "*.go"} {
		files, err := filepath.Glob(pattern)
		must(t, err)
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			text, err := os.ReadFile(f)
			must(t, err)
			for _, m := range whole.FindAllStringSubmatch(string(text), -1) {
				if strings.HasSuffix(m[1], "_") || m[1] == "tare_asks_anew" {
					continue // a prefix of names, and a method that no server has
				}
				n++
				if !bytes.Contains(page, []byte("`"+m[1]+"`")) {
					t.Errorf("%s: %s is not on the page of metrics", f, m[1])
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("%d names in the sources", n)
	}
}

// TestDocumentedMetrics searches the metrics page, which is compared with the servers, for each metric named
// in documentation, alerts and the dashboard.
func TestDocumentedMetrics(t *testing.T) {
	page, err := os.ReadFile(metricsPage)
	must(t, err)
	name := regexp.MustCompile(`:?\btare_[a-z][a-z0-9_]*`) // not tare_0.1.0_amd64.deb
	n := 0
	for _, pattern := range []string{
		"../../docs/*/*.md", "../../*.md", "../../deploy/prometheus/rules*.yaml", "../../deploy/grafana/dashboards/*.json",
	} {
		files, err := filepath.Glob(pattern)
		must(t, err)
		for _, f := range files {
			text, err := os.ReadFile(f)
			must(t, err)
			for _, m := range name.FindAllString(string(text), -1) {
				if m[0] == ':' || m == "tare_bench_import" {
					continue // a recording rule, and a schema
				}
				n++
				whole := m
				for _, suffix := range [...]string{"_bucket", "_count", "_sum"} { // of histograms
					if base := strings.TrimSuffix(m, suffix); bytes.Contains(page, []byte("`"+base+"`, histogram")) {
						whole = base
					}
				}
				if !strings.HasSuffix(m, "_") && !bytes.Contains(page, []byte("`"+whole+"`")) {
					t.Errorf("%s names %s, which is not on the page of metrics", f, m)
				}
			}
		}
	}
	if n < 100 {
		t.Errorf("%d names in the documentation", n)
	}
}
