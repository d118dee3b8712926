package main

import (
	"bytes"
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

All endpoints of all subcommands; parameters, responses and their fields are in [openapi.yaml](openapi.yaml) (OpenAPI 3.1).

| command | default address |
|---|---|
| ` + "`tare serve`" + ` | ` + "`http://127.0.0.1:8316`" + ` |
| ` + "`tare store`" + ` | ` + "`http://127.0.0.1:8317`" + ` |
| ` + "`tare frontend`" + ` | ` + "`http://127.0.0.1:8318`" + ` |
| ` + "`tare rowstream`" + ` | ` + "`http://127.0.0.1:8319`" + ` |
| ` + "`tare copy`" + ` | the unix socket ` + "`--control-socket`" + `; page and metrics at ` + "`--http`" + ` (off); ` + "`tare alter`" + ` too |

**role**: the least role that an [account](../operate/accounts.md#http-accounts) requires. **texts**: *required*: only
accounts with ` + "`texts: true`" + `; *withheld*: other accounts get the response without statement texts. Endpoints marked with †
change something: each call is logged with its account. A path that ends in ` + "`/`" + ` includes all paths below it, but for ` + "`/`" + `.

Requests are refused with 401 (no valid account) or 403 (role too low, no texts, or a page of another site), with the
required role. Details: [statements](top.md#get-apiv1statements), [PromQL](promql.md), [switching](switching.md),
[active series](active-series.md), [query log](query-log.md), [copy](copy.md).
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
		fmt.Fprintf(&page, "\n## %s\n\n| endpoint | commands | role | texts | what it is |\n|---|---|---|---|---|\n", group.title)
		for _, path := range slices.Sorted(maps.Keys(f.Paths)) {
			for _, method := range slices.Sorted(maps.Keys(f.Paths[path])) {
				o := f.Paths[path][method]
				if !group.has(path, o) {
					continue
				}
				mark := ""
				if o.Changes {
					mark = " †"
				}
				texts := o.Texts
				if texts == "none" {
					texts = ""
				}
				fmt.Fprintf(&page, "| `%s %s`%s | %s | %s | %s | %s |\n", strings.ToUpper(method), path, mark, strings.Join(o.ServedBy, ", "), o.Role, texts, o.Summary)
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

func isProgram(path string) bool {
	return strings.Contains(path, "/api/") || strings.HasPrefix(path, "/metrics") || strings.HasPrefix(path, "/-/") || strings.HasPrefix(path, "/debug/")
}

func isPromQL(path string, o apiOperation) bool {
	return strings.HasPrefix(path, "/api/v1/") && slices.Equal(o.ServedBy, []string{"serve", "store"}) && path != "/api/v1/status/blocks"
}
