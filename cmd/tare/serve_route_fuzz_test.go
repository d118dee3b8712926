package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
)

// FuzzRoute reads arbitrary files in the place of route.json: an error, or the address of a server.
func FuzzRoute(f *testing.F) {
	path := filepath.Join(f.TempDir(), routeName)
	for _, text := range []string{`{"version": 1, "address": "db2:3306", "at": "2026-03-01T12:00:00Z"}`, `{"version": 2, "address": "x"}`, `{"version": 1}`, "null", "[", ""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		must(t, os.WriteFile(path, text, 0o600))
		defer alloctest.Bounded(t, 4<<20)()
		saved, err := readRoute(path)
		if (err == nil) != (saved.Version == 1 && saved.Address != "") || err != nil && saved != (savedRoute{}) {
			t.Errorf("%q is %+v, %v", text, saved, err)
		}
	})
}
