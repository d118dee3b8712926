package server

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taredb/tare/cmd/tare/internal/config"
)

// TestDataDirIsPrivate checks that no other user can enter a new data directory, or read the files created in
// it.
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

// TestDataDir opens data directories: the given one, the default ones, and one that another process has locked.
func TestDataDir(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string // "": none
	}{
		{map[string]string{"STATE_DIRECTORY": "/var/lib/tare:/var/lib/b", "XDG_STATE_HOME": "/s", "HOME": "/h"}, "/var/lib/tare"},
		{map[string]string{"XDG_STATE_HOME": "/s", "HOME": "/h"}, "/s/tare"},
		{map[string]string{"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/tare"},
		{nil, ""},
	} {
		got, err := defaultDataDir(func(name string) string { return c.env[name] })
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%v: got %q, %v; want %q", c.env, got, err, c.want)
		}
	}

	var log strings.Builder
	parent := filepath.Join(t.TempDir(), "a")
	path := filepath.Join(parent, "b")
	open := func(dir, sub string, required bool) (*DataDir, error) {
		s := New(Options{Server: config.Server{DataDir: dir}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		err := s.OpenData(sub, required)
		return s.Data, err
	}
	first, err := open(path, "", false)
	must(t, err)
	t.Setenv("STATE_DIRECTORY", parent)
	for _, required := range []bool{false, true} {
		if _, err := open(path, "", required); err == nil || !strings.Contains(err.Error(), "give each its own --data-dir") {
			t.Errorf("opened twice, required %t: %v", required, err)
		}
		d, err := open("", "b", required)
		if d != nil || (err != nil) != required || !strings.Contains(log.String(), "another process uses it") {
			t.Errorf("a default that is in use, required %t: got %v, %v, and logged %s", required, d, err, &log)
		}
	}
	must(t, first.close())
	again, err := open("", "b", true)
	must(t, err)
	if got, want := again.File("x"), filepath.Join(path, "x"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var none *DataDir
	must(t, errors.Join(again.close(), none.close()))
	if got := none.File("x"); got != "" {
		t.Errorf("a file in no directory: %s", got)
	}
}
