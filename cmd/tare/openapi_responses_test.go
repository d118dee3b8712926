//go:build e2e

package main

import (
	"encoding/json"
	"flag"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
)

// responsesFile receives the responses, one JSON object per line: package openapi of the module e2e runs the test with it.
var responsesFile = flag.String("responses", os.DevNull, "write the responses to this file, for their validation")

// A recorder writes responses for their validation against the file of the API.
type recorder struct {
	*json.Encoder
	file apiFile
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	out, err := os.Create(*responsesFile)
	must(t, err)
	t.Cleanup(func() { must(t, out.Close()) })
	return &recorder{json.NewEncoder(out), readAPI(t)}
}

// record writes the response to a request of a path that is in the file.
func (r *recorder) record(t *testing.T, req *http.Request, resp *http.Response, body string) {
	t.Helper()
	must(t, r.Encode(map[string]any{
		"Method": req.Method, "URL": req.URL.String(), "RequestHeader": req.Header,
		"Status": resp.StatusCode, "Header": resp.Header, "Body": body,
	}))
}

// clientAt returns a client with the nth local address: servers refuse an address after some wrong passwords.
func clientAt(n int) *http.Client {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(n>>8), byte(n))}}
	return &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
}

// TestOpenAPIResponses records the responses of running servers, of every endpoint, of malformed requests, and of refused
// requests: their codes are checked here, their bodies by TestResponses of e2e/openapi.
func TestOpenAPIResponses(t *testing.T) {
	c := newRecorder(t)
	servers := startAll(t)
	awaitText(t, servers["serve"].http)
	seen := 0
	for command, s := range servers {
		for _, req := range c.file.requests(t, command, s.http) {
			resp, body := do(t, req, "operator")
			c.record(t, req, resp, body)
			mayFail := strings.HasPrefix(req.URL.Path, "/query/") || strings.Contains(req.URL.Path, "/incident") || req.URL.Path == "/assets/" || strings.HasSuffix(req.URL.Path, "histogram_metrics") // no such statement, asset or downstream
			if resp.StatusCode != http.StatusOK && !mayFail {
				t.Errorf("%s: %s %s: %d: %.300s", command, req.Method, req.URL.RequestURI(), resp.StatusCode, body)
			}
			seen++
			if req.GetBody != nil {
				var err error
				req.Body, err = req.GetBody()
				must(t, err)
			}
			resp, body = doWith(t, clientAt(seen), req, "wrong")
			c.record(t, req, resp, body)
			if resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s: %s %s as an unknown account: %d", command, req.Method, req.URL.Path, resp.StatusCode)
			}
		}
	}
	if seen < 100 {
		t.Errorf("%d responses were recorded", seen)
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
		c.record(t, req, resp, body)
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
		c.record(t, req, resp, body)
		if resp.StatusCode != call.code {
			t.Errorf("%s %s: %d, want %d: %s", call.path, call.body, resp.StatusCode, call.code, body)
		}
	}
}
