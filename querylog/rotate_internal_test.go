package querylog

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRotatedNames distinguishes the files of a rotation from other files in the directory.
func TestRotatedNames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "query.log")
	at := time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.UTC)
	for i, want := range []string{
		"query.log.20260304T050607.089Z", "query.log.20260304T050607.089Z-001", "query.log.20260304T050607.089Z-002",
	} {
		name := rotatedPath(path, at)
		if filepath.Base(name) != want {
			t.Errorf("got %s, want %s", name, want)
		}
		if i == 1 {
			name += ".zst" // a compressed file occupies the name too
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []string{"query.log", "query.log.1", "query.log.20260304T050607.089Z.tmp", "query.log.seq", "other.20260304T050607.089Z"} {
		if err := os.WriteFile(filepath.Join(dir, other), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names, err := rotated(path)
	if err != nil || len(names) != 3 {
		t.Errorf("got %v, %v", names, err)
	}
}

// TestCompressIsCancelled cancels a compression: only the original remains.
func TestCompressIsCancelled(t *testing.T) {
	name := filepath.Join(t.TempDir(), "query.log")
	if err := os.WriteFile(name, []byte(strings.Repeat("x", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := compressFile(ctx, name, Zstd); err == nil {
		t.Error("got no error")
	}
	if names, _ := filepath.Glob(name + "*"); len(names) != 1 || names[0] != name {
		t.Errorf("left behind: %v", names)
	}
}
