package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/store/storegateway"
)

func TestLoadTenantLimits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.yaml")
	load := func(text string) (storegateway.TenantLimits, error) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return LoadTenantLimits(path)
	}
	got, err := load(`
default: {requests: 8}
tenants:
  team-a:
    bytes: 256MiB
    requests: 4
    queue: 20
  team-b: {bytes: 1MiB}
clients:
  10.0.0.7: {queue: 1}
  "2001:db8::1": {requests: 1}
`)
	want := storegateway.TenantLimits{
		Default: slab.KeyLimits{Requests: 8},
		Tenants: map[string]slab.KeyLimits{"team-a": {Bytes: 256 << 20, Requests: 4, Queue: 20}, "team-b": {Bytes: 1 << 20}},
		Clients: map[string]slab.KeyLimits{"10.0.0.7": {Queue: 1}, "2001:db8::1": {Requests: 1}},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	for _, text := range []string{"", "---\n", "default:\n  requests: 1\ntenants:\n", "# nothing\n"} {
		if _, err := load(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"default:\n  byte: 1MiB":                       `:2: byte: unknown limit`,
		"default:\n  bytes: 1KiB":                      `:2: bytes: want at least 1MiB, not 1KiB`,
		"default:\n  bytes: lots":                      `:2: bytes: want a number of bytes such as`,
		"default:\n\n  requests: 0":                    `:3: requests: want a number of 1 and more, not "0"`,
		"tenants:\n  a: {queue: -1}":                   `:2: queue: want a number of 1 and more, not "-1"`,
		"tenants:\n  a/b: {queue: 1}":                  `:2: "a/b" is no name of a tenant`,
		"tenants:\n  a: {queue: 1}\n  a: {}":           `:3: a is already set in line 2`,
		"clients:\n  host: {queue: 1}":                 `:2: "host" is no address of a client`,
		"clients:\n  ::ffff:10.0.0.7: {queue: 1}":      `:2: "::ffff:10.0.0.7" is no address of a client`,
		"tenant:\n  a: {queue: 1}":                     `:1: unknown key "tenant"`,
		"- a":                                          `:1: want a mapping`,
		"default: 3":                                   `:1: want a mapping`,
		"default: {requests: [1]}":                     `:1: requests: want a text`,
		"default: {requests: 1}\n---\ndefault: {}":     `more than one document`,
		"default: {requests: 1}\n\ntenants: {a: {}":    `limits.yaml`,
		"default: {bytes: 1MiB, requests: x, queue: }": `requests: want a number`,
	} {
		if l, err := load(text); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "--tenant-limits: ") {
			t.Errorf("%q: %v, %v, want %q", text, l, err, want)
		}
	}
	if _, err := LoadTenantLimits(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is missing")
	}
	if l, err := LoadTenantLimits(""); err != nil || l.Default != (slab.KeyLimits{}) {
		t.Errorf("no file: %v, %v", l, err)
	}
}
