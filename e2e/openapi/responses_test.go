//go:build e2e

package openapi

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	validation "github.com/pb33f/libopenapi-validator/config"
	"go.yaml.in/yaml/v3"
)

const root = "../.."

// A response is a line of the recorded responses.
type response struct {
	Method, URL           string
	RequestHeader, Header http.Header
	Status                int
	Body                  string
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestResponses validates the responses of running servers: of every endpoint, of malformed requests, and of refused
// requests.
func TestResponses(t *testing.T) {
	recorded := filepath.Join(t.TempDir(), "responses")
	record := exec.Command("go", "test", "-C", root, "-tags", "e2e", "-count=1", "-run", "^TestOpenAPIResponses$", "./cmd/tare", "-responses", recorded)
	if out, err := record.CombinedOutput(); err != nil {
		t.Fatalf("record the responses: %v\n%s", err, out)
	}
	file, err := os.Open(recorded)
	must(t, err)
	defer file.Close()
	v := newValidator(t)
	validated := 0
	for lines := json.NewDecoder(file); ; validated++ {
		var r response
		err := lines.Decode(&r)
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		r.validate(t, v)
	}
	if validated < 200 {
		t.Errorf("%d responses were validated", validated)
	}
}

func newValidator(t *testing.T) validator.Validator {
	t.Helper()
	const name = root + "/docs/reference/openapi.yaml"
	text, err := os.ReadFile(name)
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
			t.Errorf("%s is not OpenAPI 3.1: %s: %s", name, p.Message, p.Reason)
		}
		t.FailNow()
	}
	return v
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

// validate compares the response with the file.
func (r *response) validate(t *testing.T, v validator.Validator) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.Method, r.URL, http.NoBody)
	must(t, err)
	req.Header = r.RequestHeader
	body := r.Body
	if r.Header.Get("Content-Type") == "application/x-ndjson" {
		body, _, _ = strings.Cut(body, "\n") // the validator decodes one value
	}
	ok, problems := v.ValidateHttpResponse(req, &http.Response{StatusCode: r.Status, Header: r.Header, Body: io.NopCloser(strings.NewReader(body))})
	if ok {
		return
	}
	for _, p := range problems {
		t.Errorf("%s %s: %d: %s: %s", r.Method, req.URL.RequestURI(), r.Status, p.Message, p.Reason)
		for _, s := range p.SchemaValidationErrors {
			t.Errorf("    %s at %s", s.Reason, s.FieldPath)
		}
	}
	t.Logf("the response: %.2000s", r.Body)
}
