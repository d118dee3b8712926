package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"
)

const httpAPIPage = "../../docs/reference/http-api.md"

const httpAPIIntro = `# HTTP API

Which endpoints does each command serve, and to whom? Parameters, responses and their fields are in
[openapi.yaml](openapi.yaml) (OpenAPI 3.1). Default addresses: ` + "`tare serve` `http://127.0.0.1:8316`, `tare store`" + `
` + "`:8317`, `tare frontend` `:8318`, `tare rowstream` `:8319`; `tare copy` and `tare alter`" + ` the unix socket ` + "`--control-socket`" + `,
pages and metrics at ` + "`--http`" + ` (off).

Each list names commands, the least role that an [account](../operate/accounts.md#http-accounts) requires (viewer if none is
named) and texts: *required*: only accounts with ` + "`texts: true`" + `; *withheld*: others get the response without statement texts.
† changes something: each call is logged with its account. A path that ends in ` + "`/`" + ` includes all paths below it, but for ` + "`/`" + `. Active
series are also served under ` + "`/prometheus`" + `. Requests are refused with 401 (no valid account) or 403 (role too low, no texts,
or a page of another site). Details: [statements](top.md#get-apiv1statements), [PromQL](promql.md),
[switching](switching.md), [active series](active-series.md), [query log](query-log.md), [copy](copy.md).
`

// TestHTTPAPIPage compares docs/reference/http-api.md with docs/reference/openapi.yaml.
func TestHTTPAPIPage(t *testing.T) {
	f := readAPI(t)
	var page bytes.Buffer
	page.WriteString(httpAPIIntro)
	for _, group := range []struct {
		title string
		has   func(path string, o apiOperation) bool
	}{
		{"Pages", func(path string, o apiOperation) bool { return !isProgram(path) && !strings.HasPrefix(path, "/v1/") }},
		{"Metrics, health and profiles", func(path string, _ apiOperation) bool {
			return strings.HasPrefix(path, "/metrics") || strings.HasPrefix(path, "/-/") || strings.HasPrefix(path, "/debug/")
		}},
		{"APIs", func(path string, o apiOperation) bool { return strings.Contains(path, "/api/") && !isPromQL(path, o) }},
		{"Prometheus' API", isPromQL},
		{"Control socket of a copy", func(path string, _ apiOperation) bool { return strings.HasPrefix(path, "/v1/") }},
	} {
		fmt.Fprintf(&page, "\n## %s\n", group.title)
		var accesses []string
		lines := make(map[string][]apiLine) // by access
		endpoints := make(map[apiLine][]string)
		for _, path := range slices.Sorted(maps.Keys(f.Paths)) {
			if strings.HasPrefix(path, "/prometheus/") {
				continue // the same without the prefix
			}
			methods := make(map[apiLine][]string)
			for _, method := range slices.Sorted(maps.Keys(f.Paths[path])) {
				if o := f.Paths[path][method]; group.has(path, o) {
					l := lineOf(path, o)
					methods[l] = append(methods[l], strings.ToUpper(method))
				}
			}
			for _, l := range slices.SortedFunc(maps.Keys(methods), func(a, b apiLine) int { return cmp.Compare(a.summary, b.summary) }) {
				if lines[l.access] == nil {
					accesses = append(accesses, l.access)
				}
				if endpoints[l] == nil {
					lines[l.access] = append(lines[l.access], l)
				}
				endpoints[l] = append(endpoints[l], "`"+strings.Join(methods[l], ", ")+" "+path+"`")
			}
		}
		for _, access := range accesses {
			fmt.Fprintf(&page, "\nOf %s:\n\n", access)
			for _, l := range lines[access] {
				fmt.Fprintf(&page, "- %s: %s\n", strings.Join(endpoints[l], ", "), l.summary)
			}
		}
	}
	if *rewrite {
		must(t, os.WriteFile(httpAPIPage, page.Bytes(), 0o644))
	}
	got, err := os.ReadFile(httpAPIPage)
	must(t, err)
	if d := diff.Diff(string(got), page.String()); d != "" {
		t.Errorf("docs/reference/http-api.md is stale: run make generate\n%s", d)
	}
}

// An apiLine is the summary of an operation, and its access: commands, role and texts.
type apiLine struct{ summary, access string }

func lineOf(path string, o apiOperation) apiLine {
	access := strings.Join(o.ServedBy, ", ")
	switch access {
	case "serve, store, frontend, rowstream, copy":
		access = "all"
	case "serve, store, frontend, rowstream":
		access = "all but copy"
	}
	if o.Role != "viewer" {
		access += "; " + o.Role
	}
	if o.Texts != "none" {
		access += "; texts " + o.Texts
	}
	summary := strings.TrimSuffix(o.Summary, ".")
	switch {
	case strings.HasSuffix(strings.ToLower(summary), "empty"):
		summary = "Always empty"
	case isPromQL(path, o):
		summary = "As in Prometheus"
	}
	if o.Changes {
		summary += " †"
	}
	return apiLine{summary, access}
}

func isProgram(path string) bool {
	return strings.Contains(path, "/api/") || strings.HasPrefix(path, "/metrics") || strings.HasPrefix(path, "/-/") || strings.HasPrefix(path, "/debug/")
}

func isPromQL(path string, o apiOperation) bool {
	return strings.HasPrefix(path, "/api/v1/") && slices.Equal(o.ServedBy, []string{"serve", "store"}) && path != "/api/v1/status/blocks"
}
