package tsblock

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// versionOne copies the block of index version 1 of Prometheus' own tests from its module.
func versionOne(t testing.TB) (dir, name string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/prometheus/prometheus").Output()
	if err != nil {
		t.Fatalf("find Prometheus' module: %v", err)
	}
	from := filepath.Join(strings.TrimSpace(string(out)), "tsdb", "testdata", "index_format_v1")
	text, err := os.ReadFile(filepath.Join(from, MetaFile))
	if err != nil {
		t.Fatal(err)
	}
	var m Meta
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	dir, name = t.TempDir(), m.ULID.String()
	if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return dir, name
}
