package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/internal/history/stmtseries"
)

// A vocabulary is the set of existing metrics, with their possible labels.
type vocabulary map[string][]string

// targetLabels are the labels that scrapers add.
var targetLabels = []string{"job", "instance", model.MetricNameLabel}

// newVocabulary has the metrics that the servers register, those of the history, and those of the runtime and the process.
func newVocabulary(t *testing.T) vocabulary {
	t.Helper()
	v := vocabulary{"up": nil}
	name := regexp.MustCompile("`([a-z_]+)`")
	all := openAll(t)
	for _, r := range [...]*server.Registry{all.serve, all.history, all.store, all.frontend, all.rowstream, all.copy, all.alter} {
		for _, m := range metricsOf(t, r) {
			var own []string
			for _, l := range name.FindAllStringSubmatch(m.labels, -1) {
				own = append(own, l[1])
			}
			v[m.name] = own
			if m.kind == "histogram" {
				v[m.name+"_bucket"], v[m.name+"_sum"], v[m.name+"_count"] = append(own[:len(own):len(own)], "le"), own, own
			}
		}
	}
	for n := range stmtseries.NumMetrics {
		m := stmtseries.Metric(n)
		v[m.String()] = m.Labels()
	}
	families, err := rowstreamMetrics(t).Gather()
	must(t, err)
	for _, f := range families {
		if _, ok := v[f.GetName()]; !ok {
			v[f.GetName()] = nil
		}
	}
	if len(v) < 100 || v["tare_queries_total"] == nil {
		t.Fatalf("%d metrics", len(v))
	}
	return v
}

// check parses an expression and reports unknown metrics and labels.
func (v vocabulary) check(t *testing.T, where, expr string) {
	t.Helper()
	tree, err := parser.NewParser(parser.Options{EnableExperimentalFunctions: true}).ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %v\n%s", where, err, expr)
		return
	}
	known := slices.Clone(targetLabels)
	parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		own, ok := v[s.Name]
		if !ok {
			t.Errorf("%s: there is no metric %s\n%s", where, s.Name, expr)
			return nil
		}
		known = append(known, own...)
		for _, m := range s.LabelMatchers {
			if m.Type != labels.MatchNotEqual && m.Type != labels.MatchNotRegexp && !slices.Contains(append(own, targetLabels...), m.Name) {
				t.Errorf("%s: %s has no label %s\n%s", where, s.Name, m.Name, expr)
			}
		}
		return nil
	})
	parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
		if a, ok := n.(*parser.AggregateExpr); ok {
			for _, l := range a.Grouping {
				if !slices.Contains(known, l) {
					t.Errorf("%s: nothing in it has the label %s\n%s", where, l, expr)
				}
			}
		}
		return nil
	})
}

// TestRules checks that the rules are well formed and use existing metrics.
func TestRules(t *testing.T) {
	const file = "../../deploy/prometheus/rules.yaml"
	groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Errorf("%s: %v", file, err)
	}
	if groups == nil {
		return
	}
	v := newVocabulary(t)
	played := playedAlerts(t)
	pages, err := filepath.Glob("../../docs/operate/runbooks*.md")
	must(t, err)
	runbook := make(map[string]string) // URL's end by alert
	for _, name := range pages {
		text, err := os.ReadFile(name)
		must(t, err)
		for line := range strings.Lines(string(text)) {
			if alert, ok := strings.CutPrefix(strings.TrimSpace(line), "## "); ok {
				runbook[alert] = "/docs/operate/" + filepath.Base(name) + "#" + strings.ToLower(alert)
			}
		}
	}
	alerts := 0
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			v.check(t, g.Name+" "+r.Record+r.Alert, r.Expr)
			if r.Record != "" {
				v[r.Record] = []string{"job", "instance"}
				continue
			}
			alerts++
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("%s: want a severity and a summary", r.Alert)
			}
			if want := runbook[r.Alert]; want == "" || !strings.HasSuffix(r.Annotations["runbook_url"], want) {
				t.Errorf("%s: want a section of docs/operate/runbooks*.md and its URL as runbook_url", r.Alert)
			}
			if p := played[r.Alert]; !p.fires || !p.rests {
				t.Errorf("%s: rules_test.yaml plays no time at which it fires, or none at which it does not", r.Alert)
			}
		}
	}
	if alerts < 10 {
		t.Errorf("%d alerts", alerts)
	}
}

// A playedAlert records the cases in promtool's tests for an alert.
type playedAlert struct{ fires, rests bool }

// playedAlerts returns the alerts covered by promtool's tests.
func playedAlerts(t *testing.T) map[string]playedAlert {
	t.Helper()
	text, err := os.ReadFile("../../deploy/prometheus/rules_test.yaml")
	must(t, err)
	var file struct {
		Tests []struct {
			Alerts []struct {
				Name     string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	must(t, yaml.Unmarshal(text, &file))
	played := make(map[string]playedAlert)
	for _, group := range file.Tests {
		for _, a := range group.Alerts {
			p := played[a.Name]
			p.fires, p.rests = p.fires || len(a.Expected) > 0, p.rests || len(a.Expected) == 0
			played[a.Name] = p
		}
	}
	return played
}

// A dashboard is the tested part of a Grafana dashboard.
type dashboard struct {
	Title      string
	Templating struct {
		List []struct {
			Name, Type, Definition string
			Datasource             struct{ UID string }
		}
	}
	Panels []struct {
		ID          int
		Type, Title string
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct {
			Expr       string
			Datasource struct{ UID string }
		}
	}
}

// TestDashboard checks that each expression of the dashboard queries existing metrics in the right source,
// and that the panels do not overlap.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../deploy/grafana/dashboards/tare.json")
	must(t, err)
	var d dashboard
	must(t, json.Unmarshal(text, &d))
	v := newVocabulary(t)
	variables := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$gateway", "a|b", "$digest", "abc", "$job", "tare")
	history := regexp.MustCompile(`\btare_(quer(y|ies)_|digest_info)`)
	exprs := 0
	ask := func(where, uid, expr string) {
		t.Helper()
		exprs++
		expr = variables.Replace(expr)
		if strings.Contains(expr, "$") {
			t.Errorf("%s: a variable that there is not: %s", where, expr)
		}
		v.check(t, where, expr)
		want := "${metrics}"
		if history.MatchString(expr) {
			want = "${history}"
		}
		if uid != want {
			t.Errorf("%s: asks %s, want %s", where, uid, want)
		}
	}
	inner := regexp.MustCompile(`^(?:label_values\(([a-z_]+), [a-z]+\)|query_result\((.*)\))$`)
	for _, l := range d.Templating.List {
		if l.Type != "query" {
			continue
		}
		m := inner.FindStringSubmatch(l.Definition)
		if m == nil {
			t.Errorf("variable %s: %s", l.Name, l.Definition)
			continue
		}
		ask("variable "+l.Name, l.Datasource.UID, m[1]+m[2])
	}
	ids := make(map[int]bool)
	taken := make(map[[2]int]string)
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("panel %d is there twice", p.ID)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" {
					t.Fatalf("panels %q and %q lie on each other", taken[at], p.Title)
				}
				taken[at] = p.Title
			}
		}
		for _, target := range p.Targets {
			ask("panel "+p.Title, target.Datasource.UID, target.Expr)
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q asks nothing", p.Title)
		}
	}
	if exprs < 30 {
		t.Errorf("%d expressions", exprs)
	}
}

// TestCompose checks that the flags and the mounted files of the compose file exist.
func TestCompose(t *testing.T) {
	dir := "../../deploy/compose"
	text, err := os.ReadFile(filepath.Join(dir, "compose.yaml"))
	must(t, err)
	var file struct {
		Services map[string]struct {
			Image, User string
			Build       struct{ Context, Dockerfile string }
			Command     []string
			Ports       []string
			Volumes     []string
		}
		Volumes map[string]any
	}
	must(t, yaml.Unmarshal(text, &file))
	for name, s := range file.Services {
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if !strings.HasPrefix(from, ".") {
				if _, ok := file.Volumes[from]; !ok {
					t.Errorf("%s: there is no volume %s", name, from)
				}
			} else if _, err := os.Stat(filepath.Join(dir, from)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: the port %s is published to everybody", name, p)
			}
		}
		if s.Image != "tare" {
			continue
		}
		var c config.Command = config.NewServe()
		if s.Command[0] == "store" {
			c = config.NewStore()
		}
		flags := make(map[string]string)
		for _, f := range s.Command[1:] {
			flag, value, ok := strings.Cut(strings.TrimPrefix(f, "--"), "=")
			if !ok {
				t.Errorf("%s: %s", name, f)
			}
			flags[flag] = value
		}
		if _, err := c.Load(config.Input{Flags: flags}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, file.Services["tare"].Build.Context, file.Services["tare"].Build.Dockerfile)); err != nil {
		t.Error(err)
	}
}

// TestImagesArePinned requires a digest of each image that is not built here, and the Go release of go.mod for the build.
func TestImagesArePinned(t *testing.T) {
	image := regexp.MustCompile(`(?m)^(?:FROM| +image:) (\S+)`)
	pinned := regexp.MustCompile(`^[^@]+:[^:@]+@sha256:[0-9a-f]{64}$`)
	mod, err := os.ReadFile("../../go.mod")
	must(t, err)
	release := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(mod)[1]
	found := 0
	must(t, filepath.WalkDir("../../deploy", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range image.FindAllSubmatch(text, -1) {
			switch name := string(m[1]); {
			case name == "scratch", name == "tare", strings.HasPrefix(name, "registry.example/"): // nothing, ours, and the reader's
			case !pinned.MatchString(name):
				t.Errorf("%s: %s: want name:tag@sha256:digest", path, name)
			case strings.HasPrefix(name, "golang:") && !strings.HasPrefix(name, "golang:"+string(release)+"@"):
				t.Errorf("%s: %s: go.mod wants Go %s", path, name, release)
			default:
				found++
			}
		}
		return err
	}))
	if found < 6 {
		t.Errorf("%d images were found", found)
	}
}

// TestActionsArePinned requires the commit of each action of the workflows, and that a token may write only where a job says so.
func TestActionsArePinned(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	must(t, err)
	uses := regexp.MustCompile(`(?m)^ +(?:- )?uses: (.*)$`)
	pinned := regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		for _, m := range uses.FindAllSubmatch(text, -1) {
			found++
			if !pinned.Match(m[1]) {
				t.Errorf("%s: %s: want owner/action@commit # version", file, m[1])
			}
		}
		if !strings.Contains(string(text), "\npermissions:\n  contents: read\n\n") {
			t.Errorf("%s: want permissions to read alone", file)
		}
	}
	if found < 4 {
		t.Errorf("%d actions were found", found)
	}
}

// TestDependabot requires updates of each file with pinned images, by the ecosystem that reads it, and of each module.
func TestDependabot(t *testing.T) {
	text, err := os.ReadFile("../../.github/dependabot.yml")
	must(t, err)
	var file struct {
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directory   string
			Directories []string
		}
	}
	must(t, yaml.Unmarshal(text, &file))
	updated := func(ecosystem, name string) bool {
		for _, u := range file.Updates {
			for _, pattern := range append(u.Directories, u.Directory) {
				if ok, err := path.Match(pattern, path.Join("/", path.Dir(name))); u.Ecosystem == ecosystem && ok && err == nil {
					return true
				}
			}
		}
		return false
	}
	found := 0
	must(t, filepath.WalkDir("../..", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); name == ".tools" || name == ".git" || name == "bin" || name == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel("../..", file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		var want, dependency string
		switch base := path.Base(name); {
		case base == "go.mod":
			want, dependency = "gomod", "\nrequire "
		case base == "Dockerfile":
			want, dependency = "docker", "\nFROM "
		case base == "compose.yaml":
			want, dependency = "docker-compose", "image: "
		case path.Ext(base) == ".yaml":
			want, dependency = "docker", "@sha256:"
		default:
			return nil
		}
		content, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(content, []byte(dependency)) {
			return err
		}
		found++
		if !updated(want, name) {
			t.Errorf("%s has no updates for %s", want, name)
		}
		return nil
	}))
	if found < 8 {
		t.Errorf("%d files were found", found)
	}
}

// TestUnit has systemd verify the units completely and rate the exposure of the services.
func TestUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze on this machine")
	}
	exe, err := os.Executable()
	must(t, err)
	for file, name := range map[string]string{"tare.service": "tare.service", "tare-store@.service": "tare-store@2.service"} {
		text, err := os.ReadFile("../../deploy/systemd/" + file)
		must(t, err)
		// The program need not be installed for this.
		unit := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(unit, []byte(strings.ReplaceAll(string(text), "/usr/local/bin/tare", exe)), 0o600))
		if out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput(); err != nil || strings.Contains(string(out), unit) {
			t.Errorf("systemd-analyze verify: %v\n%s", err, out)
		}
		const threshold = "20" // tenths: 2.0 of 10
		if out, err := exec.Command(analyze, "security", "--offline=yes", "--threshold="+threshold, unit).CombinedOutput(); err != nil {
			t.Errorf("systemd-analyze security: %v\n%s", err, out)
		}
	}
}
