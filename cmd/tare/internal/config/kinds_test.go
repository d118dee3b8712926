package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func ExampleParseBytes() {
	b, err := ParseBytes("32MiB")
	fmt.Println(int64(b), b, err)
	_, err = ParseBytes("32MB")
	fmt.Println(err)
	// Output:
	// 33554432 32MiB <nil>
	// want a number of bytes such as 65536, 64KiB, 32MiB or 32M, not "32MB"
}

func ExampleServe() {
	c := NewServe()
	_, err := c.Load(Input{
		Flags:   map[string]string{"listen": "127.0.0.1:4000"},
		Environ: []string{"TARE_PLAN_CACHE_BYTES=64MiB"},
	})
	fmt.Println(err, c.Listen, c.PlanCacheBytes, c.Set().Lookup("plan-cache-bytes").Origin())
	// Output:
	// <nil> 127.0.0.1:4000 64MiB env TARE_PLAN_CACHE_BYTES
}

func ExampleSecret() {
	s := NewSecret("hunter2")
	fmt.Printf("%v %q %s\n", s, s, s.Reveal())
	// Output:
	// xxxxx xxxxx hunter2
}

func TestKindsRefuse(t *testing.T) {
	for name, bad := range map[string][]string{
		"plan-cache-bytes": {"", "-1", "1.5MiB", "MiB", "1mib", "1 MiB", "9223372036854775807KiB", "4KiB", "+1"},
		"connect-timeout":  {"", "5", "-5s", "5 s", "s"},
		"log-per-digest":   {"", "10", "-1/s", "10/m", "/s", "1.5/s"},
		"listen":           {"", "off", "127.0.0.1", ":", ":x", ":65536", "a b:1", "mysql://h:1", "/run/s:1"},
		"log-original":     {"", "2", "TRUE", "maybe"},
		"log-format":       {"", "JSON", "xml"},
		"diag-level":       {"", "INFO", "info+1", "fatal", "info|warn"},
		"max-connections":  {"", "-1", "1e3", "99999999999"},
		"log-one-in":       {"-1"},
	} {
		for _, text := range bad {
			s := NewServe()
			before := s.Set().Lookup(name).Text()
			if _, err := s.Load(Input{Flags: map[string]string{name: text}}); err == nil {
				t.Errorf("--%s accepted %q", name, text)
			} else if !strings.HasPrefix(err.Error(), "--"+name+": want ") {
				t.Errorf("--%s %q: %v does not begin with the flag and what it wants", name, text, err)
			}
			if after := s.Set().Lookup(name).Text(); after != before {
				t.Errorf("--%s %q: the refused value changed %s to %s", name, text, before, after)
			}
		}
	}
}

// TestTextReadsBack checks that each kind's text parses to the same value.
func TestTextReadsBack(t *testing.T) {
	for name, texts := range map[string][]string{
		"plan-cache-bytes": {"1MiB", "1025KiB", "1048577", "3GiB", "1TiB"},
		"connect-timeout":  {"0", "1ms", "1.5s", "30m", "1h", "1h1m", "1h0m1s", "36h"},
		"log-per-digest":   {"0", "10/s"},
		"log-rotate-size":  {"0", "7"},
		"diag-level":       {"debug", "info", "warn", "error"},
		"log-original":     {"true", "false"},
		"control":          {"", "mysql://tare@db:3306"},
		"copies":           {"", "mysql://tare@db:3306"},
	} {
		for _, text := range texts {
			o := NewServe().Set().Lookup(name)
			if err := o.set(text, Origin{FromFlag, "--" + name}); err != nil {
				t.Error(err)
			}
			if got := o.Text(); got != text {
				t.Errorf("--%s %s prints as %s", name, text, got)
			}
		}
	}
}

func TestDocumentedDefaultsAreTheTexts(t *testing.T) {
	for _, s := range Sections() {
		for _, o := range s.Options() {
			if o.Text() != o.Default {
				t.Errorf("--%s: the default is declared as %q and prints as %q", o.Name, o.Default, o.Text())
			}
			if o.Help == "" || strings.HasSuffix(o.Help, ".") || o.Kind == "" {
				t.Errorf("--%s: help %q and kind %q: want a text without a full stop, and a kind", o.Name, o.Help, o.Kind)
			}
		}
	}
}

// TestOneNameOneMeaning checks consistency between sections: an environment variable has no section, so an
// option of several sections must have one meaning.
func TestOneNameOneMeaning(t *testing.T) {
	seen := make(map[string]*Option)
	for _, s := range Sections() {
		for _, o := range s.Options() {
			if other := seen[o.Name]; other != nil && other.Kind != o.Kind {
				t.Errorf("--%s is %s in one section and %s in another", o.Name, other.Kind, o.Kind)
			}
			seen[o.Name] = o
		}
	}
}

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	log := Diag{Format: DiagJSON, Level: slog.LevelWarn}.Logger(&out)
	log.Info("quiet")
	log.Warn("loud", "wait", time.Second)
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line["msg"] != "loud" {
		t.Errorf("got %q, want one line of JSON that says loud: %v", out.String(), err)
	}
	out.Reset()
	Diag{Format: DiagText}.Logger(&out).Info("hello")
	if !strings.Contains(out.String(), "level=INFO msg=hello") {
		t.Errorf("got %q, want text", out.String())
	}
}

// FuzzFile loads arbitrary files: they are accepted or refused, and an accepted one prints as a file that
// gives the same values.
func FuzzFile(f *testing.F) {
	f.Add([]byte("serve:\n  listen: 127.0.0.1:1\n  rules:\n  - {name: a, action: block, users: [x]}\n"))
	f.Add([]byte("serve: &a\n  cpus: 1\n  http: \"\"\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("? {a: b}\n: c\n"))
	f.Add([]byte("serve: {<<: {cpus: 1}}\n"))
	f.Add([]byte("--- \n...\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		first := NewServe()
		if len(first.set.parseFile("f", text)) > 0 {
			return
		}
		var printed bytes.Buffer
		if err := WriteYAML(&printed, []*Set{first.set}); err != nil {
			t.Fatal(err)
		}
		second := NewServe()
		if errs := second.set.parseFile("f", printed.Bytes()); len(errs) > 0 {
			t.Fatalf("%v in what was printed:\n%s", errs, printed.Bytes())
		}
		for i, o := range first.set.options {
			if got := second.set.options[i].Text(); got != o.Text() {
				t.Errorf("%s: read back %q, want %q, from\n%s", o.Name, got, o.Text(), printed.Bytes())
			}
		}
		if len(first.Rules) != len(second.Rules) {
			t.Errorf("read back %d rules, want %d", len(second.Rules), len(first.Rules))
		}
	})
}
