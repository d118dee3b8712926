package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/top"
	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/web"
)

const openAPIFile = "../../docs/reference/openapi.yaml"

// An apiFile is the part of docs/reference/openapi.yaml that the tests and the page use.
type apiFile struct {
	Paths map[string]map[string]apiOperation `yaml:"paths"`
}

type apiOperation struct {
	Summary    string         `yaml:"summary"`
	ServedBy   []string       `yaml:"x-served-by"`
	Role       string         `yaml:"x-role"`
	Texts      string         `yaml:"x-texts"`
	Changes    bool           `yaml:"x-changes"`
	Parameters []apiParameter `yaml:"parameters"`
	Body       map[string]any `yaml:"requestBody"`
}

type apiParameter struct {
	Name        string `yaml:"name"`
	In          string `yaml:"in"`
	Required    bool   `yaml:"required"`
	Description string `yaml:"description"`
	Example     string `yaml:"example"`
}

func readAPI(t *testing.T) apiFile {
	t.Helper()
	text, err := os.ReadFile(openAPIFile)
	must(t, err)
	var f apiFile
	must(t, yaml.Unmarshal(text, &f))
	return f
}

// line returns the properties that must be equal in the program and the file.
func (o apiOperation) line(method, path string) string {
	return fmt.Sprintf("%s %s role=%s texts-required=%t changes=%t", strings.ToUpper(method), path, o.Role, o.Texts == "required", o.Changes)
}

// operations returns the lines of one subcommand, sorted.
func (f apiFile) operations(command string) []string {
	var lines []string
	for path, methods := range f.Paths {
		for method, o := range methods {
			if slices.Contains(o.ServedBy, command) {
				lines = append(lines, o.line(method, path))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// TestOpenAPIHasEveryRoute checks that docs/reference/openapi.yaml has exactly the endpoints that the
// subcommands register, with the role, the texts and the changes that each declares.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	f := readAPI(t)
	for path, methods := range f.Paths {
		for method, o := range methods {
			if !slices.Contains([]string{"required", "withheld", "none"}, o.Texts) || o.Summary == "" || len(o.ServedBy) == 0 {
				t.Errorf("%s %s lacks x-texts, a summary or x-served-by", method, path)
			}
		}
	}
	for command, endpoints := range registered(t) {
		var got []string
		if command == "copy" {
			for _, e := range control.Endpoints() {
				got = append(got, fmt.Sprintf("%s role=owner texts-required=false changes=%t", e, !strings.HasPrefix(e, "GET ")))
			}
		}
		for _, e := range endpoints {
			got = append(got, fmt.Sprintf("%s %s role=%s texts-required=%t changes=%t", e.Method, e.Path, e.Need.Role(), e.Need.Texts(), e.Need.Changes()))
		}
		slices.Sort(got)
		compareLines(t, command, f.operations(command), got)
	}
}

func compareLines(t *testing.T, command string, want, got []string) {
	t.Helper()
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("tare %s: the file has %q, which is not registered so", command, line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("tare %s: %q is registered and not in the file", command, line)
		}
	}
}

// registered builds each server with everything that adds routes and returns their endpoints.
func registered(t *testing.T) map[string][]web.Endpoint {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	dir := t.TempDir()
	bucket := filepath.Join(dir, "bucket")
	must(t, os.Mkdir(bucket, 0o700))
	load := func(c config.Command, flags map[string]string) {
		t.Helper()
		_, err := c.Load(config.Input{Flags: flags})
		must(t, err)
	}
	all := make(map[string][]web.Endpoint)

	o := config.NewServe()
	accounts := filepath.Join(dir, "accounts")
	must(t, os.WriteFile(accounts, []byte("app: secret\n"), 0o600))
	load(o, map[string]string{
		"listen": "127.0.0.1:0", "http": "127.0.0.1:0",
		"bucket": "file://" + bucket, "data-dir": filepath.Join(dir, "serve"), "copies": "mysql://tare:secret@127.0.0.1:1",
		"standby": "mysql://127.0.0.1:1", "standby-accounts": accounts,
	})
	all["serve"] = opened(t, newService(*o, log)).Web.Endpoints()

	so := config.NewStore()
	load(so, map[string]string{"http": "127.0.0.1:0", "bucket": "file://" + bucket, "data-dir": filepath.Join(dir, "store")})
	all["store"] = opened(t, newStoreService(*so, log)).Web.Endpoints()

	fo := config.NewFrontend()
	load(fo, map[string]string{"http": "127.0.0.1:0", "downstream": "http://127.0.0.1:1"})
	all["frontend"] = opened(t, newFrontendService(fo, log)).Web.Endpoints()

	source := testmysql.Start(t)
	ro := config.NewRowstream()
	load(ro, map[string]string{"from": "mysql://" + testmysql.RootUser + ":" + testmysql.Password + "@" + source.Addr, "listen": "127.0.0.1:0", "http": "127.0.0.1:0"})
	all["rowstream"] = opened(t, newRowstreamService(ro, log)).Web.Endpoints()

	co := config.NewCopy()
	load(co, map[string]string{"http": "127.0.0.1:0"})
	copied := newCopyServer("copy", co.HTTPAccess, &copier.Metrics{}, log)
	must(t, copied.OpenWeb(web.Options{Progress: (&copyPages{}).progress}))
	all["copy"] = copied.Web.Endpoints()
	return all
}

// requests builds a request for each operation of a subcommand, from the examples of its parameters. It omits
// requests that run for long or change state.
func (f apiFile) requests(t *testing.T, command, base string) []*http.Request {
	t.Helper()
	var all []*http.Request
	for path, methods := range f.Paths {
		for method, o := range methods {
			if !slices.Contains(o.ServedBy, command) || o.Changes || strings.HasSuffix(path, "/profile") || strings.HasSuffix(path, "/trace") || path == "/api/v1/read" {
				continue
			}
			all = append(all, apiRequest(t, method, base, path, o, f.Paths[path]["get"].Parameters))
		}
	}
	return all
}

func apiRequest(t *testing.T, method, base, path string, o apiOperation, ofGet []apiParameter) *http.Request {
	t.Helper()
	values := url.Values{}
	if path == "/debug/querylog" {
		values.Set("for", "0s")
	}
	parameters := o.Parameters
	if o.Body != nil {
		parameters = ofGet // a form has the same
	}
	for _, p := range parameters {
		switch {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(p.Example))
		case p.Required:
			values.Set(p.Name, p.Example)
		}
	}
	var body io.Reader
	if o.Body != nil {
		body = strings.NewReader(values.Encode())
		values = nil
	}
	req, err := http.NewRequestWithContext(t.Context(), strings.ToUpper(method), base+path, body)
	must(t, err)
	req.URL.RawQuery = values.Encode()
	if o.Body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return req
}

// wholeTexts are the schemas of docs/reference/openapi.yaml, and the types in the code, with a text that is not a statement's.
var wholeTexts = []string{"EventReport", "Progress", "web.ProgressLine", "markers.report"}

// TestCutTextsAreDeclared checks that each object with a statement's text declares text_cut beside it: in
// docs/reference/openapi.yaml, and in each type of the code that is a part of a response.
func TestCutTextsAreDeclared(t *testing.T) {
	text, err := os.ReadFile(openAPIFile)
	must(t, err)
	var f struct {
		Components struct {
			Schemas map[string]any `yaml:"schemas"`
		} `yaml:"components"`
	}
	must(t, yaml.Unmarshal(text, &f))
	declared := 0
	for name, schema := range f.Components.Schemas {
		objects(schema, func(properties map[string]any) {
			if properties["text"] == nil || slices.Contains(wholeTexts, name) {
				return
			}
			if declared++; properties["text_cut"] == nil {
				t.Errorf("%s: schema %s has a text without text_cut", openAPIFile, name)
			}
		})
	}
	types := 0
	for _, dir := range []string{"web", "internal/history/statements", "internal/history/markers", "cmd/tare/internal/top", "cmd/tare", "gateway", "internal/history/explain", "internal/history/serverstats"} {
		files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
		must(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			must(t, err)
			ast.Inspect(parsed, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				fields, ok := spec.Type.(*ast.StructType)
				if !ok {
					return true
				}
				var names []string
				for _, field := range fields.Fields.List {
					if field.Tag != nil {
						name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json"), ",")
						names = append(names, name)
					}
				}
				name := parsed.Name.Name + "." + spec.Name.Name
				if !slices.Contains(names, "text") || slices.Contains(wholeTexts, name) {
					return true
				}
				if types++; !slices.Contains(names, "text_cut") {
					t.Errorf("%s has a text without text_cut", name)
				}
				return true
			})
		}
	}
	if declared < 6 || types < 10 {
		t.Errorf("%d schemas and %d types have texts", declared, types)
	}
}

// foreignNames are the schemas of docs/reference/openapi.yaml, and the files and names in the code, that Prometheus defines
// or that are in files of earlier processes.
var foreignNames = map[string]bool{
	"PromError": true, "QueryData": true, "BuildInfo": true, "RuntimeInfo": true,
	"store/promapi/status.go": true, "store/tsblock/meta.go": true, "errorType": true,
	"history/faultfile.go": true, "history/instances.go": true,
}

// TestJSONNames expects the names of our JSON, in docs/reference/openapi.yaml and in the code, to be in snake_case.
func TestJSONNames(t *testing.T) {
	snake := regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`)
	text, err := os.ReadFile(openAPIFile)
	must(t, err)
	var f struct {
		Components struct {
			Schemas map[string]any `yaml:"schemas"`
		} `yaml:"components"`
	}
	must(t, yaml.Unmarshal(text, &f))
	names := 0
	for schema, node := range f.Components.Schemas {
		objects(node, func(properties map[string]any) {
			for name := range properties {
				if names++; !snake.MatchString(name) && !foreignNames[schema] {
					t.Errorf("%s: %s of schema %s is not in snake_case", openAPIFile, name, schema)
				}
			}
		})
	}
	tag := regexp.MustCompile("`(?:[a-z]+:\"[^\"]*\" )*json:\"([^\",]+)")
	root := filepath.Join("..", "..")
	tags := 0
	must(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != root && (strings.HasPrefix(e.Name(), ".") || e.Name() == "testdata"):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		for _, m := range tag.FindAllSubmatch(source, -1) {
			if key := string(m[1]); key != "-" && !foreignNames[filepath.ToSlash(name)] && !foreignNames[key] {
				if tags++; !snake.MatchString(key) {
					t.Errorf("%s: %s is not in snake_case", name, key)
				}
			}
		}
		return err
	}))
	if names < 300 || tags < 600 {
		t.Errorf("%d names in schemas and %d in the code", names, tags)
	}
}

// TestPageParameters expects each parameter that the code of a page reads in docs/reference/openapi.yaml.
func TestPageParameters(t *testing.T) {
	f := readAPI(t)
	paths := map[string]string{
		"page_live.go": "/live", "page_plans.go": "/plans", "page_promql.go": "/promql", "page_series.go": "/series", "page_sessions.go": "/sessions",
		"page_store.go": "/store", "queries.go": "/queries", "querygroups.go": "/queries", "timerange.go": "/",
	}
	read := regexp.MustCompile(`(?:\bq|\bquery|Query\(\))\.(?:Get|Has)\("([a-z_]+)"\)`)
	files, err := filepath.Glob("../../web/*.go")
	must(t, err)
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || filepath.Base(file) == "page.go" { // which has those of all pages with a range
			continue
		}
		source, err := os.ReadFile(file)
		must(t, err)
		path := paths[filepath.Base(file)]
		for _, m := range read.FindAllSubmatch(source, -1) {
			found++
			name := string(m[1])
			if !slices.ContainsFunc(f.Paths[path]["get"].Parameters, func(p apiParameter) bool { return p.Name == name }) {
				t.Errorf("%s reads the parameter %s, which the page %q does not document", file, name, path)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d parameters were found", found)
	}
}

// TestDescriptionsAreWhole expects no key without a value in docs/reference/openapi.yaml: the rest of a text without quotes, after
// its comma.
func TestDescriptionsAreWhole(t *testing.T) {
	text, err := os.ReadFile(openAPIFile)
	must(t, err)
	var file any
	must(t, yaml.Unmarshal(text, &file))
	var walk func(path string, node any)
	walk = func(path string, node any) {
		switch node := node.(type) {
		case map[string]any:
			for name, value := range node {
				if value == nil {
					t.Errorf("%s: %q is a key", path, name)
				}
				walk(path+"/"+name, value)
			}
		case []any:
			for _, value := range node {
				walk(path, value)
			}
		}
	}
	walk("", file)
}

// TestTopPassesOn expects each property of the two responses that tare top --json repeats in its output.
func TestTopPassesOn(t *testing.T) {
	text, err := os.ReadFile(openAPIFile)
	must(t, err)
	var f struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any `yaml:"properties"`
			} `yaml:"schemas"`
		} `yaml:"components"`
	}
	must(t, yaml.Unmarshal(text, &f))
	for schema, response := range map[string]any{"Live": top.Live{}, "Sessions": top.Sessions{}, "Session": top.Session{}, "SessionBlock": top.Block{}} {
		names := make(map[string]bool)
		for field := range reflect.TypeOf(response).Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			names[name] = true
		}
		properties := f.Components.Schemas[schema].Properties
		if len(properties) < 5 {
			t.Errorf("schema %s has the properties %v", schema, properties)
		}
		for name := range properties {
			if !names[name] {
				t.Errorf("tare top --json leaves out %s of %s", name, schema)
			}
		}
	}
}

// objects calls visit with the properties of each object in a schema.
func objects(node any, visit func(properties map[string]any)) {
	switch node := node.(type) {
	case map[string]any:
		if properties, ok := node["properties"].(map[string]any); ok {
			visit(properties)
		}
		for _, child := range node {
			objects(child, visit)
		}
	case []any:
		for _, child := range node {
			objects(child, visit)
		}
	}
}
