package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taredb/tare/cmd/tare/internal/config"
)

// TestHistoryDiskCache opens gateways whose history has a disk cache in a directory that is free, in one that another
// gateway uses, and in one that is a file: the latter two log a warning and keep a history without it.
func TestHistoryDiskCache(t *testing.T) {
	dir := t.TempDir()
	bucket, file := filepath.Join(dir, "bucket"), filepath.Join(dir, "file")
	must(t, os.Mkdir(bucket, 0o700))
	must(t, os.WriteFile(file, nil, 0o600))
	for i, c := range []struct {
		cache, warning string
	}{
		{"cache", ""},
		{"cache", "another process uses it"},
		{"file", "not a directory"},
	} {
		o := config.NewServe()
		_, err := o.Load(config.Input{Flags: map[string]string{
			"listen": "127.0.0.1:0", "http": "off", "bucket": "file://" + bucket, "data-dir": filepath.Join(dir, string(rune('a'+i))),
			"history-cache-dir": filepath.Join(dir, c.cache), "history-cache-size": "1MiB",
		}})
		must(t, err)
		var log lockedBuffer
		s := opened(t, newService(*o, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))))
		if s.history.gateway == nil || (s.history.disk == nil) != (c.warning != "") {
			t.Errorf("%s: gateway %v, disk cache %v", c.cache, s.history.gateway, s.history.disk)
		}
		if found := strings.Contains(log.String(), "history has no disk cache until the next start"); found != (c.warning != "") || !strings.Contains(log.String(), c.warning) {
			t.Errorf("%s: the log is\n%s", c.cache, log.String())
		}
	}
}
