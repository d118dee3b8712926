package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testblock"
)

// TestHostName reaches servers by a host name, as the documented Grafana does: without the option the response
// has the option and the name, with it the request is served.
func TestHostName(t *testing.T) {
	dir := t.TempDir()
	bucket := filepath.Join(dir, "blocks")
	must(t, os.Mkdir(bucket, 0o700))
	_, err := testblock.Shape{Count: 10, Samples: 10}.Write(bucket, testblock.Options{External: map[string]string{"cluster": "eu"}})
	must(t, err)
	for _, c := range []struct {
		ready, path string
		args        []string
	}{
		{"listening", "/api/v1/live", []string{"serve", "--listen", "127.0.0.1:0", "--backend", "mysql://127.0.0.1:1"}},
		{"store listens", "/api/v1/query?query=1", []string{"store", "--bucket", "file://" + bucket, "--grpc", "off"}},
		{"frontend listens", "/", []string{"frontend", "--member", "http://127.0.0.1:1"}},
	} {
		for _, allowed := range []bool{false, true} {
			args := append([]string{}, c.args...)
			if args[0] == "store" {
				args = append(args, "--data-dir", t.TempDir())
			}
			if allowed {
				args = append(args, "--http-allowed-hosts", "metrics.internal")
			}
			s := startCommand(t, c.ready, args...)
			r := getRequest(t, s.http+c.path)
			r.Host = "metrics.internal:8317"
			resp, body := do(t, r, "")
			named := strings.Contains(body, "option http-allowed-hosts") && strings.Contains(strings.ReplaceAll(body, `\"`, `"`), `"metrics.internal:8317"`)
			if refused := resp.StatusCode == http.StatusForbidden; refused == allowed || refused != named {
				t.Errorf("%v: %d %s", args, resp.StatusCode, body)
			}
		}
	}
}
