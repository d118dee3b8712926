package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// TestDataDirIsPrivate: no other user can enter a new data directory, or read the files that are made in it.
func TestDataDirIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "data")
	d, err := lockDataDir(path, slog.New(slog.DiscardHandler))
	must(t, err)
	defer func() { must(t, d.close()) }()
	for name, want := range map[string]os.FileMode{"": 0o700, "lock": 0o600} {
		info, err := os.Stat(filepath.Join(path, name))
		must(t, err)
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%q has mode %04o, want %04o", name, got, want)
		}
	}
}
