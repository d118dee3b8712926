//go:build e2e

package main

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	validation "github.com/pb33f/libopenapi-validator/config"
	"go.yaml.in/yaml/v3"
)

// A checkedAPI validates responses against the file.
type checkedAPI struct {
	file      apiFile
	validator validator.Validator
}

func newCheckedAPI(t *testing.T) *checkedAPI {
	t.Helper()
	text, err := os.ReadFile(openAPIFile)
	must(t, err)
	var parsed any
	must(t, yaml.Unmarshal(text, &parsed))
	closeObjects(parsed)
	text, err = yaml.Marshal(parsed)
	must(t, err)
	doc, err := libopenapi.NewDocument(text)
	must(t, err)
	v, errs := validator.NewValidator(doc, validation.WithFormatAssertions())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if ok, problems := v.ValidateDocument(); !ok {
		for _, p := range problems {
			t.Errorf("%s is not OpenAPI 3.1: %s: %s", openAPIFile, p.Message, p.Reason)
		}
		t.FailNow()
	}
	return &checkedAPI{file: readAPI(t), validator: v}
}

// closeObjects makes every object with properties refuse others: a field that is missing in the file fails
// the test, although clients must accept new ones.
func closeObjects(node any) {
	switch node := node.(type) {
	case map[string]any:
		if _, ok := node["properties"].(map[string]any); ok && node["additionalProperties"] == nil {
			node["additionalProperties"] = false
		}
		for _, child := range node {
			closeObjects(child)
		}
	case []any:
		for _, child := range node {
			closeObjects(child)
		}
	}
}

// checkBody validates a response of a path that is in the file.
func (c *checkedAPI) checkBody(t *testing.T, req *http.Request, resp *http.Response, body string) {
	t.Helper()
	asked := req.Clone(req.Context())
	asked.Body = http.NoBody
	copied := *resp
	if resp.Header.Get("Content-Type") == "application/x-ndjson" {
		body, _, _ = strings.Cut(body, "\n") // the validator decodes one value
	}
	copied.Body = io.NopCloser(strings.NewReader(body))
	ok, problems := c.validator.ValidateHttpResponse(asked, &copied)
	if ok {
		return
	}
	for _, p := range problems {
		t.Errorf("%s %s: %d: %s: %s", req.Method, req.URL.RequestURI(), resp.StatusCode, p.Message, p.Reason)
		for _, s := range p.SchemaValidationErrors {
			t.Errorf("    %s at %s", s.Reason, s.FieldPath)
		}
	}
	t.Logf("the response: %.2000s", body)
}

// TestOpenAPIResponses validates the responses of running servers against docs/reference/openapi.yaml: of
// every endpoint, of malformed requests, and of refused requests.
func TestOpenAPIResponses(t *testing.T) {
	c := newCheckedAPI(t)
	servers := startAll(t)
	awaitText(t, servers["serve"].http)
	seen := 0
	for command, s := range servers {
		for _, req := range c.file.requests(t, command, s.http) {
			resp, body := do(t, req, "operator")
			c.checkBody(t, req, resp, body)
			mayFail := strings.HasPrefix(req.URL.Path, "/query/") || strings.Contains(req.URL.Path, "/incident") || req.URL.Path == "/assets/" || strings.HasSuffix(req.URL.Path, "histogram_metrics") // no such statement, asset or downstream
			if resp.StatusCode != http.StatusOK && !mayFail {
				t.Errorf("%s: %s %s: %d: %.300s", command, req.Method, req.URL.RequestURI(), resp.StatusCode, body)
			}
			seen++
			resp, body = do(t, req.Clone(t.Context()), "wrong")
			c.checkBody(t, req, resp, body)
			if resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s: %s %s as an unknown account: %d", command, req.Method, req.URL.Path, resp.StatusCode)
			}
		}
	}
	if seen < 100 {
		t.Errorf("%d responses were validated", seen)
	}
	serve, store := servers["serve"].http, servers["store"].http
	for target, code := range map[string]int{
		serve + "/api/v1/statements?limit=5&points=3&compare=true&source=counters":               200,
		serve + "/api/v1/statements?from=never":                                                  400,
		serve + "/api/v1/plans?limit=-1":                                                         400,
		serve + "/api/v1/query?query=up{":                                                        400,
		store + "/api/v1/query_range?query=%7Bfoo%3D%22bar%22%7D&start=0&end=1&step=1&explain=1": 200,
		store + "/api/v1/query?query=1":                                                          200,
		store + "/api/v1/query?query=%22text%22":                                                 200,
		serve + "/debug/querylog?for=0s&format=text":                                             200,
		serve + "/debug/querylog?for=never":                                                      400,
		serve + "/queries?sort=never":                                                            400,
		serve + "/api/v1/cardinality/active_series":                                              400,
	} {
		req := getRequest(t, target)
		resp, body := do(t, req, "operator")
		c.checkBody(t, req, resp, body)
		if resp.StatusCode != code {
			t.Errorf("%s: %d, want %d: %.300s", target, resp.StatusCode, code, body)
		}
	}
	for _, call := range []struct {
		path, body string
		code       int
	}{
		{"hold", `{"for": "1ms"}`, 200}, {"hold", `{"for": "never"}`, 400}, {"switch", `{"token": "none", "to": "standby"}`, 409}, {"release", `{"token": "none"}`, 409},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, serve+"/api/v1/route/"+call.path, strings.NewReader(call.body))
		must(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, body := do(t, req, "operator-blind")
		c.checkBody(t, req, resp, body)
		if resp.StatusCode != call.code {
			t.Errorf("%s %s: %d, want %d: %s", call.path, call.body, resp.StatusCode, call.code, body)
		}
	}
}
