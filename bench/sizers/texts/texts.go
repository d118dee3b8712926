package texts

import (
	"encoding/json"
	"fmt"
	"go/build"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// Statements returns a function that cycles through the SQL statements of sizegen/internal/subjects/sqlast for which
// ok is true. The command must run in bench/sizers.
func Statements(ok func(string) bool) func(i int) string {
	var all []string
	for part := range strings.SplitSeq(read("../../sizegen/internal/subjects/sqlast/testdata/statements.sql"), ";\n") {
		var lines []string
		for line := range strings.Lines(part) {
			if !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
		if s := strings.TrimSpace(strings.Join(lines, "")); s != "" && ok(s) {
			all = append(all, s)
		}
	}
	return round(all)
}

// Queries returns PromQL expressions.
func Queries() func(i int) string {
	return round([]string{
		`sum by (job, instance) (rate(http_requests_total{job="api", code=~"5.."}[5m])) / sum by (job, instance) (rate(http_requests_total{job="api"}[5m]))`,
		`histogram_quantile(0.99, sum(rate(request_duration_seconds_bucket{handler!="/metrics", method=~"GET|POST|PUT"}[5m])) by (le, handler))`,
		`topk(10, max_over_time(process_resident_memory_bytes{instance=~"db-[0-9]+.*"}[1h] offset 1d))`,
		`up == 0 unless on (instance) (changes(up[15m]) > 2)`,
		`label_replace(node_filesystem_avail_bytes{mountpoint!~"/(dev|proc|sys)/.*"} / node_filesystem_size_bytes, "disk", "$1", "device", "/dev/(.*)") < 0.1`,
		`avg_over_time((sum without (cpu) (irate(node_cpu_seconds_total{mode!="idle"}[1m])))[1h:5m]) > bool 0.8`,
		`quantile_over_time(0.5, latency_seconds{quantile="0.9", service=~".*front.*"}[10m]) + on (service) group_left (team) service_owner`,
		`-(absent(job:errors:rate5m{severity=~"(warning|critical)"}) or vector(0)) ^ 2`,
	})
}

// GoFiles returns files of the standard library.
func GoFiles() func(i int) string {
	var all []string
	for _, dir := range []string{"net/http", "go/types", "encoding/json", "crypto/tls", "reflect", "database/sql", "text/template"} {
		names, err := filepath.Glob(filepath.Join(build.Default.GOROOT, "src", dir, "*.go"))
		if err != nil {
			panic(err)
		}
		for _, name := range names {
			if info, err := os.Stat(name); err == nil && info.Size() < 60_000 {
				all = append(all, read(name))
			}
		}
	}
	return round(all)
}

// Patterns returns regular expressions.
func Patterns() func(i int) string {
	return round([]string{
		`^(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$`,
		`(?i)select\s+(.+?)\s+from\s+([a-z_][a-z0-9_]*)(\s+where\s+(.*))?`,
		`[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}`,
		`(foo|bar|baz)+qu*x?[^\s/]*`,
		`^/api/v(1|2)/(users|orders|items)/([0-9]+)(/.*)?$`,
		`(?s)<a\s+href="([^"]*)"[^>]*>(.*?)</a>`,
		`\b(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3}\b`,
	})
}

// Pod returns the i-th pod as JSON.
func Pod(i int) string {
	return object(i, "v1", "Pod", func(r *rand.Rand) map[string]any { return podSpec(r) })
}

// Deployment returns the i-th deployment as JSON.
func Deployment(i int) string {
	return object(i, "apps/v1", "Deployment", func(r *rand.Rand) map[string]any {
		labels := map[string]any{"app": word(r), "tier": word(r)}
		return map[string]any{
			"replicas": 1 + r.IntN(9),
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": podSpec(r)},
			"strategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": "25%", "maxUnavailable": 1}},
		}
	})
}

func object(i int, version, kind string, spec func(*rand.Rand) map[string]any) string {
	r := rand.New(rand.NewPCG(uint64(i%997), 3))
	annotations := map[string]any{}
	for range r.IntN(12) {
		annotations["example.com/"+word(r)] = word(r) + " " + word(r)
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": version, "kind": kind,
		"metadata": map[string]any{
			"name": word(r), "namespace": word(r), "uid": fmt.Sprintf("%016x-%016x", r.Uint64(), r.Uint64()), "resourceVersion": fmt.Sprint(r.Uint32()),
			"creationTimestamp": "2026-03-04T05:06:07Z", "labels": map[string]any{"app": word(r)}, "annotations": annotations,
		},
		"spec": spec(r),
	})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func podSpec(r *rand.Rand) map[string]any {
	var containers []any
	for range 1 + r.IntN(3) {
		var env []any
		for range r.IntN(10) {
			env = append(env, map[string]any{"name": word(r), "value": word(r)})
		}
		containers = append(containers, map[string]any{
			"name": word(r), "image": "registry.example.com/" + word(r) + ":" + word(r), "env": env, "args": []any{"--" + word(r), "--" + word(r)},
			"ports":          []any{map[string]any{"containerPort": 8080, "protocol": "TCP"}},
			"resources":      map[string]any{"limits": map[string]any{"cpu": "500m", "memory": "128Mi"}, "requests": map[string]any{"cpu": "1500m"}},
			"livenessProbe":  map[string]any{"httpGet": map[string]any{"path": "/healthz", "port": "http"}, "periodSeconds": 10},
			"volumeMounts":   []any{map[string]any{"name": "data", "mountPath": "/data/" + word(r)}},
			"readinessProbe": map[string]any{"tcpSocket": map[string]any{"port": 8080}},
		})
	}
	return map[string]any{
		"containers": containers, "nodeName": word(r), "serviceAccountName": word(r), "terminationGracePeriodSeconds": 30,
		"volumes":     []any{map[string]any{"name": "data", "emptyDir": map[string]any{"sizeLimit": "1Gi"}}},
		"tolerations": []any{map[string]any{"key": word(r), "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}},
	}
}

func word(r *rand.Rand) string {
	b := make([]byte, 3+r.IntN(24))
	for i := range b {
		b[i] = 'a' + byte(r.IntN(26))
	}
	return string(b)
}

// round returns a function that cycles through the texts and returns a new copy at each call.
func round(all []string) func(i int) string {
	return func(i int) string { return strings.Clone(all[i%len(all)]) }
}

func read(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return string(text)
}
