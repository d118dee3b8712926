package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/internal/slab"
)

// TestTenantLimitsReload starts a store with limits of tenants, reloads them, and reloads them again from an
// invalid file.
func TestTenantLimitsReload(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "limits.yaml")
	write := func(text string) { must(t, os.WriteFile(file, []byte(text), 0o600)) }
	bucket := filepath.Join(dir, "bucket")
	must(t, os.Mkdir(bucket, 0o700))
	build := func() (*storeService, *bytes.Buffer, error) {
		o := config.NewStore()
		_, err := o.Load(config.Input{Flags: map[string]string{
			"http": "127.0.0.1:0", "bucket": "file://" + bucket, "data-dir": filepath.Join(dir, "data"), "tenant-limits": file,
		}})
		must(t, err)
		log := new(bytes.Buffer)
		s := newStoreService(*o, slog.New(slog.NewTextHandler(log, nil)))
		return s, log, server.Open(t.Context(), s)
	}
	write("tenants:\n  a: {requests: none}\n")
	_, _, err := build()
	if err == nil || !strings.Contains(err.Error(), file+":2: requests: want a number") {
		t.Errorf("a file that is wrong at the start: %v", err)
	}

	write("tenants:\n  a: {requests: 3}\n")
	s, log, err := build()
	must(t, err)
	defer func() { must(t, server.Close(s)) }()
	of := func() slab.KeyLimits { return s.limiter.Limits("tenant a") }
	if of().Requests != 3 {
		t.Errorf("at the start: %+v", of())
	}
	write("tenants:\n  a: {requests: 5}\n")
	s.reloadLimits()
	if of().Requests != 5 || !strings.Contains(log.String(), "tenant limits reloaded") {
		t.Errorf("reloaded: %+v, log %s", of(), log)
	}
	write("tenants:\n  a: {requests: 7, que: 1}\n")
	s.reloadLimits()
	if of().Requests != 5 || !strings.Contains(log.String(), "limits.yaml:1") && !strings.Contains(log.String(), "limits.yaml:2") {
		t.Errorf("reloaded a file that is wrong: %+v, log %s", of(), log)
	}
}
