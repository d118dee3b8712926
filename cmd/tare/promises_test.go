package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// repositoryRoot is the root of the checkout, from this package's directory.
const repositoryRoot = "../.."

// lastRelease returns the latest tag v… among the commits up to this one. Without one the test is skipped: nothing is promised yet.
func lastRelease(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "-C", repositoryRoot, "describe", "--tags", "--abbrev=0", "--match", "v*").Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) || errors.Is(err, exec.ErrNotFound) {
		t.Skip("no release precedes this commit, or there is no git repository")
	}
	must(t, err)
	return strings.TrimSpace(string(out))
}

func fileOf(t *testing.T, release, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "-C", repositoryRoot, "show", release+":"+name).Output()
	must(t, err)
	return string(out)
}

func fileNow(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repositoryRoot, name))
	must(t, err)
	return string(text)
}

// tableNames are the names in the first cells of tables.
var tableNames = regexp.MustCompile("(?m)^\\| [^|`]*`([^`|]+)`[^|]*\\| ")

// A promised page lists the names that a release promises. Other tests hold each page against the program.
var promised = []struct {
	page string
	name *regexp.Regexp // its first group
}{
	{"docs/reference/configuration.md", regexp.MustCompile("(?m)^ *- `(--[a-z0-9-]+)")},
	{"docs/reference/metrics.md", regexp.MustCompile("(?m)^ *- `(tare_[a-z0-9_]+)`")},
	{"docs/reference/query-log.md", regexp.MustCompile("(?m)^- `([a-z0-9_]+)`")},
	{"docs/reference/file-formats.md", tableNames},
	{"history/FORMATS.md", tableNames},
}

// unannounced returns what the release had and is gone, without what the changelog names between quotes above the section of the release.
func unannounced(before, now []string, changes string) []string {
	var gone []string
	for _, name := range before {
		if !slices.Contains(now, name) && !strings.Contains(changes, "`"+name+"`") && !slices.Contains(gone, name) {
			gone = append(gone, name)
		}
	}
	return gone
}

func namesIn(page string, name *regexp.Regexp) []string {
	var names []string
	for _, m := range name.FindAllStringSubmatch(page, -1) {
		names = append(names, m[1])
	}
	return names
}

// changesSince returns the changelog above the section of a release.
func changesSince(t *testing.T, release string) string {
	t.Helper()
	text, _, found := strings.Cut(fileNow(t, "CHANGELOG.md"), "\n## ["+strings.TrimPrefix(release, "v")+"]")
	if !found {
		t.Fatalf("CHANGELOG.md has no section for %s", release)
	}
	return text
}

// TestPromises compares names that the last release promised with those of this commit: options, metrics, fields of the query log and file
// formats. One that the changelog does not name may not disappear.
func TestPromises(t *testing.T) {
	for _, p := range promised {
		if n := len(namesIn(fileNow(t, p.page), p.name)); n < 8 {
			t.Errorf("%s has %d names: has its form changed?", p.page, n)
		}
	}
	release := lastRelease(t)
	changes := changesSince(t, release)
	for _, p := range promised {
		before := namesIn(fileOf(t, release, p.page), p.name)
		if len(before) < 8 {
			t.Errorf("%s of %s has %d names", p.page, release, len(before))
		}
		for _, name := range unannounced(before, namesIn(fileNow(t, p.page), p.name), changes) {
			t.Errorf("%s: %s had %s; keep it, or name it in CHANGELOG.md", p.page, release, name)
		}
	}
}

// TestPromisedAPI compares the HTTP API with that of the last release: each path, method, parameter and property of a response remains, no
// parameter becomes required.
func TestPromisedAPI(t *testing.T) {
	const file = "docs/reference/openapi.yaml"
	if lost := lostAPI(t, fileNow(t, file), fileNow(t, file)); len(lost) > 0 {
		t.Fatalf("the API lacks parts of itself: %q", lost)
	}
	release := lastRelease(t)
	changes := changesSince(t, release)
	for _, what := range lostAPI(t, fileOf(t, release, file), fileNow(t, file)) {
		if path, _, _ := strings.Cut(what, " "); !strings.Contains(changes, "`"+path+"`") {
			t.Errorf("%s had %s; keep it, or name the path in CHANGELOG.md", release, what)
		}
	}
}

func lostAPI(t *testing.T, before, now string) (lost []string) {
	t.Helper()
	var a, b map[string]any
	must(t, yaml.Unmarshal([]byte(before), &a))
	must(t, yaml.Unmarshal([]byte(now), &b))
	pathsA, pathsB := a["paths"].(map[string]any), b["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(pathsA)) {
		methods, _ := pathsB[path].(map[string]any)
		for method, operation := range pathsA[path].(map[string]any) {
			if methods[method] == nil {
				lost = append(lost, path+" "+method)
				continue
			}
			lost = lostParameters(lost, path+" "+method, operation.(map[string]any), methods[method].(map[string]any))
			lost = lostParts(lost, path+" "+method, "", operation, methods[method])
		}
	}
	components, _ := b["components"].(map[string]any)
	return lostParts(lost, "components", "", a["components"], components)
}

func lostParameters(lost []string, at string, before, now map[string]any) []string {
	byName := func(operation map[string]any) map[string]map[string]any {
		all := map[string]map[string]any{}
		list, _ := operation["parameters"].([]any)
		for _, p := range list {
			p := p.(map[string]any)
			name, _ := p["name"].(string)
			if ref, ok := p["$ref"].(string); ok {
				name = ref
			}
			all[name] = p
		}
		return all
	}
	a, b := byName(before), byName(now)
	for name := range a {
		if b[name] == nil {
			lost = append(lost, at+" parameter "+name)
		}
	}
	for name, p := range b {
		if p["required"] == true && (a[name] == nil || a[name]["required"] != true) {
			lost = append(lost, at+" without parameter "+name)
		}
	}
	return lost
}

// lostParts reports properties, responses and media types that are gone, and properties of another type. Descriptions and lists may change.
func lostParts(lost []string, at, in string, before, now any) []string {
	a, ok := before.(map[string]any)
	if !ok {
		return lost
	}
	b, _ := now.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(a)) {
		switch {
		case in == "" && key == "parameters" || key == "description" || key == "summary" || key == "example" || key == "examples":
		case b[key] == nil && (in == "properties" || in == "responses" || in == "content" || in == "schemas"):
			lost = append(lost, at+" "+key)
		case key == "type" || key == "$ref":
			if fmt.Sprint(a[key]) != fmt.Sprint(b[key]) && b != nil {
				lost = append(lost, fmt.Sprintf("%s %s %v", at, key, a[key]))
			}
		case b[key] != nil:
			lost = lostParts(lost, at+" "+key, key, a[key], b[key])
		}
	}
	return lost
}

// TestPromisedSample loads the last release's sample configuration, as it is and with all that is commented out.
func TestPromisedSample(t *testing.T) {
	release := lastRelease(t)
	sample := fileOf(t, release, "deploy/tare.yaml")
	changes := changesSince(t, release)
	for name, text := range map[string][]byte{"as it is": []byte(sample), "whole": wholeSample([]byte(sample))} {
		file := filepath.Join(t.TempDir(), "tare.yaml")
		must(t, os.WriteFile(file, text, 0o600))
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{"config", "check", file}, &stdout, &stderr); code != 0 && !strings.Contains(changes, "deploy/tare.yaml") {
			t.Errorf("the sample of %s, %s: exit code %d: %s", release, name, code, &stderr)
		}
	}
}

// TestPromisesAreCompared removes and changes parts, and requires that each is reported.
func TestPromisesAreCompared(t *testing.T) {
	if got := unannounced([]string{"--a", "--b", "--c", "--a"}, []string{"--c"}, "`--b` is gone, --a too"); !slices.Equal(got, []string{"--a"}) {
		t.Errorf("unannounced: %q", got)
	}
	const before = `
paths:
  /a:
    get: {parameters: [{name: x}, {name: y}], responses: {'200': {description: d, content: {application/json: {schema: {properties: {p: {type: string}, q: {type: integer}}}}}}}}
    post: {responses: {'200': {description: d}}}
components: {schemas: {S: {properties: {r: {type: string}}}}}
`
	const now = `
paths:
  /a:
    get: {parameters: [{name: x, required: true}], responses: {'200': {description: e, content: {application/json: {schema: {properties: {q: {type: string}}}}}}}}
components: {schemas: {S: {properties: {}}}}
`
	want := []string{
		"/a get parameter y", "/a get responses 200 content application/json schema properties p",
		"/a get responses 200 content application/json schema properties q type integer", "/a get without parameter x", "/a post", "components schemas S properties r",
	}
	if got := slices.Sorted(slices.Values(lostAPI(t, before, now))); !slices.Equal(got, want) {
		t.Errorf("lost:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
