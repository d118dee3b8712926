package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/cmd/tare/internal/config"
)

// TestOptionsAreDocumented holds the options of all commands, with their kinds, defaults and descriptions, against the page.
func TestOptionsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/reference/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var options strings.Builder
	if err := config.WriteMarkdown(&options, config.Sections()); err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]bool)
	for line := range strings.Lines(string(page)) {
		documented[line] = true
	}
	for line := range strings.Lines(options.String()) {
		if !documented[line] {
			t.Errorf("not on the page: %s", line)
		}
	}
	if n, want := strings.Count(string(page), "- `--"), strings.Count(options.String(), "- `--"); n != want {
		t.Errorf("the page has %d options, the commands have %d", n, want)
	}
}

// good are the least options of a copy.
func good(change map[string]string) map[string]string {
	flags := map[string]string{"from": "mysql://app@db1", "to": "mysql://app@db2", "tables": "shop.a"}
	for name, text := range change {
		if flags[name] = text; text == "" {
			delete(flags, name)
		}
	}
	return flags
}

// TestReady names each option of a copy that is missing.
func TestReady(t *testing.T) {
	for _, c := range []struct {
		change map[string]string
		want   []string
	}{
		{nil, nil},
		{map[string]string{"from": ""}, []string{"--from is required"}},
		{map[string]string{"to": ""}, []string{"--to is required"}},
		{map[string]string{"to": "file:///dump"}, nil},
		{map[string]string{"tables": ""}, []string{"--tables is required"}},
		{map[string]string{"tables": "", "schema": "shop"}, nil},
		{map[string]string{"tables": "shop.a*"}, nil},
		{map[string]string{"tables": "", "from": "file:///dump"}, nil},
		{map[string]string{"from": "", "to": "", "tables": ""}, []string{"--from is required", "--to is required", "--tables is required"}},
		{map[string]string{"to": "", "to-shard": "mysql://app@db2\nmysql://app@db3", "shard-by": "shop.a: hash(id)", "follow": "true"}, nil},
		{map[string]string{"from": "", "from-shard": "mysql://app@db3\nmysql://app@db4", "shard-by": "shop.a: hash(id)", "follow": "true"}, nil},
	} {
		o := config.NewCopy()
		if _, err := o.Load(config.Input{Flags: good(c.change)}); err != nil {
			t.Errorf("%v: %v", c.change, err)
			continue
		}
		err := o.Ready()
		text := ""
		if err != nil {
			text = err.Error()
		}
		if n := len(strings.Split(text, "\n")); len(c.want) == 0 && err != nil || len(c.want) > 0 && n != len(c.want) {
			t.Errorf("%v: %v, want %q", c.change, err, c.want)
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%v: %v, want %q", c.change, err, want)
			}
		}
	}
}

// TestMerge refuses each option that copies from several sources exclude, one at a time.
func TestMerge(t *testing.T) {
	merge := func(change map[string]string) map[string]string {
		flags := good(map[string]string{"from": "", "from-shard": "mysql://app@db3\nmysql://app@db4", "shard-by": "shop.a: hash(id)", "follow": "true"})
		for name, text := range change {
			if flags[name] = text; text == "" {
				delete(flags, name)
			}
		}
		return flags
	}
	for _, c := range []struct {
		change map[string]string
		want   string
	}{
		{nil, ""},
		{map[string]string{"from-shard": "mysql://app@db3"}, "--from-shard is given once"},
		{map[string]string{"from": "mysql://app@db1"}, "--from and --from-shard"},
		{map[string]string{"to": "file:///dump"}, "several sources have no common point in time"},
		{map[string]string{"follow": ""}, "--from-shard requires --follow"},
		{map[string]string{"tables": "", "schema": "shop"}, "--from-shard requires --tables with names"},
		{map[string]string{"where": "shop.a: id > 5"}, "--from-shard excludes --where"},
		{map[string]string{"columns": "shop.a: id"}, "--from-shard excludes --where, --only-shard and --columns"},
		{map[string]string{"only-shard": "shop.a: id=1/4"}, "--from-shard excludes --where, --only-shard"},
		{map[string]string{"from-shard": "mysql://app@db3\nmysql://b@db3"}, "--from-shard names db3:3306 twice"},
		{map[string]string{"shard-by": "shop.a: hash(id)\nshop.a: hash(id)"}, "--shard-by names shop.a twice"},
		{map[string]string{"shard-by": "shop.b: hash(id)"}, "--shard-by: "},
		{map[string]string{"shard-by": ""}, "--shard-by is missing for shop.a"},
		{map[string]string{"tables": "shop.a,shop.b"}, "--shard-by is missing for shop.b"},
	} {
		o := config.NewCopy()
		_, err := o.Load(config.Input{Flags: merge(c.change)})
		switch {
		case c.want == "" && (err != nil || len(o.Merge) != 2):
			t.Errorf("%v: %v, %d sources", c.change, err, len(o.Merge))
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v: %v, want %q", c.change, err, c.want)
		case strings.Contains(c.want, "twice") && strings.Count(err.Error(), "\n") > 0:
			t.Errorf("%v: more than one error: %v", c.change, err)
		}
	}
	o := config.NewCopy()
	if _, err := o.Load(config.Input{Flags: merge(nil)}); err != nil {
		t.Fatal(err)
	}
	if p := o.SourcePart(1); string(p.From.MySQL.Addr) != "db4:3306" || len(p.Copy.Tables) != 1 || p.Control != config.ControlOff {
		t.Errorf("the part of the second source: %+v", p.From)
	}
}

// TestValues has values of options at the edges of their ranges.
func TestValues(t *testing.T) {
	for _, c := range []struct {
		name, text string
		good       bool
	}{
		{"map-collation", "utf8mb4_0900_ai_ci=utf8mb4_az09_ci", true},
		{"map-collation", "a=z", true},
		{"map-collation", "a=0", true},
		{"map-collation", "a=9", true},
		{"map-collation", "a=_", true},
		{"map-collation", "a=", false},
		{"map-collation", "=a", false},
		{"map-collation", "a=A", false},
		{"map-collation", "a=`", false},
		{"map-collation", "a={", false},
		{"map-collation", "a=/", false},
		{"map-collation", "a=:", false},
		{"map-collation", "a-b=a", false},
		{"workers", "1", true},
		{"workers", "0", false},
		{"chunk-bytes", "1024", true},
		{"chunk-bytes", "1023", false},
	} {
		_, err := config.NewCopy().Load(config.Input{Flags: good(map[string]string{c.name: c.text})})
		if (err == nil) != c.good {
			t.Errorf("--%s %s: %v", c.name, c.text, err)
		}
	}
	for text, good := range map[string]bool{
		"tare.example.com": true, "a,b": true, "a:1": true, "a:65535": true, "a:65536": false, "a:": false, "a:x": false, ":80": false, "a,": false, ",": false,
		"http://a": false, "a/b": false, "a b": false, "u@a": false, "*.a": false, "[::1]": false, "a:-1": false,
	} {
		if _, err := config.NewServe().Load(config.Input{Flags: map[string]string{"http-allowed-hosts": text}}); (err == nil) != good {
			t.Errorf("--http-allowed-hosts %q: %v", text, err)
		}
	}
}

// TestHTTPOff refuses options that have no effect without a server, one at a time.
func TestHTTPOff(t *testing.T) {
	for name, text := range map[string]string{"http-max-connections": "100", "http-allowed-hosts": "a", "web-config-file": "f", "web-accounts-file": "f"} {
		_, err := config.NewServe().Load(config.Input{Flags: map[string]string{"http": "off", name: text}})
		if want := "--" + name + " has no effect with --http off"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, c := range []struct {
		flags map[string]string
		good  bool
	}{
		{map[string]string{"http": "0.0.0.0:1"}, false},
		{map[string]string{"http": "127.0.0.1:1"}, true},
		{map[string]string{"http": "0.0.0.0:1", "web-config-file": "f"}, true},
		{map[string]string{"http": "0.0.0.0:1", "web-accounts-file": "f"}, true},
		{map[string]string{"http": "off"}, true},
		{map[string]string{"http-max-connections": "2"}, true},
		{map[string]string{"http-max-connections": "1"}, false},
	} {
		if _, err := config.NewServe().Load(config.Input{Flags: c.flags}); (err == nil) != c.good {
			t.Errorf("%v: %v", c.flags, err)
		}
	}
	for _, c := range []struct {
		address string
		allowed []string
		want    string
	}{{"127.0.0.1:1", nil, "127.0.0.1"}, {"db-1:1", []string{"a"}, "db-1,a"}, {":1", []string{"a"}, "a"}, {"", []string{"a"}, "a"}} {
		h := config.HTTPAccess{HTTP: config.Address(c.address), AllowedHosts: c.allowed}
		if got := strings.Join(h.Hosts(), ","); got != c.want {
			t.Errorf("hosts of %q: %s, want %s", c.address, got, c.want)
		}
	}
}

// TestServerKey loads the keys by which passwords are encrypted.
func TestServerKey(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.pem")
	if err := os.WriteFile(bad, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change          map[string]string
		loadErr, keyErr string
		requested       bool
	}{
		{nil, "", "", false},
		{map[string]string{"from-get-public-key": "true"}, "", "", true},
		{map[string]string{"from-public-key": bad}, "", "load --from-public-key", false},
		{map[string]string{"from-public-key": bad + "-none"}, "", "no such file", false},
		{map[string]string{"from-public-key": bad, "from-get-public-key": "true"}, "exclude each other", "", false},
	} {
		o := config.NewCopy()
		_, err := o.Load(config.Input{Flags: good(c.change)})
		if (err == nil) != (c.loadErr == "") || err != nil && !strings.Contains(err.Error(), c.loadErr) {
			t.Errorf("%v: %v, want %q", c.change, err, c.loadErr)
		}
		if err != nil {
			continue
		}
		key, err := o.FromKey.Load()
		if (err == nil) != (c.keyErr == "") || err != nil && !strings.Contains(err.Error(), c.keyErr) || key.Request != c.requested {
			t.Errorf("%v: %+v, %v, want %q", c.change, key, err, c.keyErr)
		}
	}
}

// TestAlterOptions passes on the options of an alter: no table may be rebuilt in place with 0.
func TestAlterOptions(t *testing.T) {
	for text, want := range map[string]int64{"0": -1, "1": 1, "1GiB": 1 << 30} {
		c := config.NewAlter()
		if _, err := c.Load(config.Input{Flags: map[string]string{"on": "mysql://app@db1", "table": "shop.orders", "max-inplace": text, "workers": "3", "on-event": "x", "keep-old": "2h", "revert-window": "1h"}}); err != nil {
			t.Fatal(err)
		}
		o := c.Options()
		if o.MaxInplace != want || o.Schema != "shop" || o.Table != "orders" || o.Workers != 3 || o.OnEvent != "x" || o.KeepOld != 2*time.Hour || o.RevertWindow != time.Hour || o.ChunkBytes != 16<<20 {
			t.Errorf("--max-inplace %s: %+v", text, o)
		}
	}
}
