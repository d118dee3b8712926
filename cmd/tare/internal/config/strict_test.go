package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/mysqlconn"
)

// errPipe is the error of a writer without a reader.
var errPipe = errors.New("broken pipe")

// A lostWriter fails.
type lostWriter struct{}

func (lostWriter) Write([]byte) (int, error) { return 0, errPipe }

// TestPrintFails writes sections to a writer that fails, in each form.
func TestPrintFails(t *testing.T) {
	for form, err := range map[string]error{
		"YAML": WriteYAML(lostWriter{}, Sections()), "JSON": WriteJSON(lostWriter{}, Sections()), "Markdown": WriteMarkdown(lostWriter{}, Sections()),
	} {
		if !errors.Is(err, errPipe) {
			t.Errorf("%s: %v, want %v", form, err, errPipe)
		}
	}
}

// TestTexts parses texts as values of each kind of URL, address and list: a text is refused, or is printed again as in the table.
func TestTexts(t *testing.T) {
	type parsed struct {
		text string
		err  error
	}
	kinds := map[string]func(string) parsed{
		"source": func(s string) parsed { v, err := parseCopySource(s); return parsed{v.String(), err} },
		"target": func(s string) parsed { v, err := parseCopyTarget(s); return parsed{v.String(), err} },
		"gateway": func(s string) parsed {
			v, err := parseGatewayURL(s)
			return parsed{v.String(), err}
		},
		"accounts": func(s string) parsed {
			v, err := parseControlURLs(s)
			return parsed{strings.ReplaceAll(formatControlURLs(v), "\n", " "), err}
		},
		"bucket":   func(s string) parsed { v, err := parseBucket(s); return parsed{v.String(), err} },
		"features": func(s string) parsed { _, err := parseFeatures(s); return parsed{s, err} },
		"names":    func(s string) parsed { v, err := parseNames(s); return parsed{strings.Join(v, "|"), err} },
		"number":   func(s string) parsed { v, err := parseNumber(s); return parsed{formatNumber(v), err} },
		"address":  func(s string) parsed { v, err := parseAddress(s); return parsed{string(v), err} },
		"off":      func(s string) parsed { v, err := parseOptionalAddress(s); return parsed{formatOptionalAddress(v), err} },
		"rate":     func(s string) parsed { v, err := parseRate(s); return parsed{v.String(), err} },
		"duration": func(s string) parsed { v, err := parseDuration(s); return parsed{formatDuration(v), err} },
		"bytes":    func(s string) parsed { v, err := ParseBytes(s); return parsed{v.String(), err} },
		"TLS of a side": func(s string) parsed {
			var mode *mysqlconn.TLSMode
			section := &Set{}
			sideTLS(section, &mode, "x-tls", "TLS")
			o := section.Lookup("x-tls")
			err := o.set(s, Origin{FromFlag, "--x-tls"})
			return parsed{o.Text(), err}
		},
	}
	for _, c := range []struct{ kind, text, want string }{ // an empty want: refused
		{"source", "mysql://a:secret@h", "mysql://a:xxxxx@h:3306"},
		{"source", "tare://h:1", "tare://h:1"},
		{"source", "tare://h:1/", "tare://h:1"},
		{"source", "file:///d", "file:///d"},
		{"source", "tare://h", ""},
		{"source", "tare://h:x", ""},
		{"source", "tare://h:65536", ""},
		{"source", "tare://a@h:1", ""},
		{"source", "tare://h:1/x", ""},
		{"source", "tare://h:1?a=b", ""},
		{"source", "tare://h:1#x", ""},
		{"source", "tare://%zz:1", ""},
		{"source", "file://h/d", ""},
		{"source", "postgres://h", ""},
		{"target", "mysql://a:secret@h:1", "mysql://a:xxxxx@h:1"},
		{"target", "file:///d", "file:///d"},
		{"target", "file://h/d", ""},
		{"target", "tare://h:1", ""},
		{"gateway", "http://h:1", "http://h:1"},
		{"gateway", "https://u:secret@h:1/", "https://u:xxxxx@h:1/"},
		{"gateway", "http://h:1/x", ""},
		{"gateway", "http://:1", ""},
		{"gateway", "http://h:1#x", ""},
		{"gateway", "http://%zz", ""},
		{"accounts", "mysql://a@h\n\n mysql://b@h:1 \n", "mysql://a@h:3306 mysql://b@h:1"},
		{"accounts", "mysql://a@h\nmysql://", ""},
		{"accounts", "mysql://\nmysql://a@h", ""},
		{"bucket", "file:///d", "file:///d"},
		{"bucket", "file://h/d", ""},
		{"bucket", "d", ""},
		{"features", "promql-experimental-functions", "promql-experimental-functions"},
		{"features", "x", ""},
		{"features", "promql-experimental-functions,", ""},
		{"names", "a, b ,c", "a|b|c"},
		{"names", "a,,b", ""},
		{"names", ",a", ""},
		{"names", "a, ", ""},
		{"number", "0", "0"},
		{"number", "1e300", "1e+300"},
		{"number", "1.5", "1.5"},
		{"number", "-1", ""},
		{"number", "1.1e300", ""},
		{"number", "NaN", ""},
		{"number", "x", ""},
		{"address", "h:0", "h:0"},
		{"address", "h:65535", "h:65535"},
		{"address", "[::1]:1", "[::1]:1"},
		{"address", "h:65536", ""},
		{"address", "h:", ""},
		{"address", "a@b:1", ""},
		{"address", "off", ""},
		{"off", "off", "off"},
		{"off", "h:1", "h:1"},
		{"off", "h", ""},
		{"rate", "0", "0"},
		{"rate", "0/s", "0"},
		{"rate", "2147483647/s", "2147483647/s"},
		{"rate", "2147483648/s", ""},
		{"rate", "1", ""},
		{"duration", "0s", "0"},
		{"duration", "1ns", "1ns"},
		{"duration", "-1ns", ""},
		{"duration", "3600s", "1h"},
		{"duration", "61m", "1h1m"},
		{"duration", "1", ""},
		{"bytes", "9223372036854775807", "9223372036854775807"},
		{"bytes", "9007199254740991KiB", "9007199254740991KiB"},
		{"bytes", "9007199254740992KiB", ""},
		{"bytes", "8388607TiB", "8388607TiB"},
		{"bytes", "8388608T", ""},
		{"bytes", "1024B", "1KiB"},
		{"bytes", "0", "0"},
		{"TLS of a side", "backend", "backend"},
		{"TLS of a side", "required", "required"},
		{"TLS of a side", "disabled", "disabled"},
		{"TLS of a side", "none", ""},
	} {
		got := kinds[c.kind](c.text)
		if (got.err == nil) != (c.want != "") || got.err == nil && got.text != c.want {
			t.Errorf("%s %q: %q, %v, want %q", c.kind, c.text, got.text, got.err, c.want)
		}
		if got.err != nil && strings.Contains(got.err.Error(), "secret") {
			t.Errorf("%s %q: the error has the password", c.kind, c.text)
		}
	}
	for address, want := range map[Address]bool{"127.0.0.1:1": true, "localhost:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true, "10.0.0.1:1": false, ":1": false, "": false, "127.0.0.1": false, "db:1": false} {
		if address.Loopback() != want {
			t.Errorf("%s: loopback %v", address, !want)
		}
	}
}

// TestValidateTwice validates options again, as a reload does: the parsed values are the same, and none is added.
func TestValidateTwice(t *testing.T) {
	type validated interface {
		Command
		Validate() error
	}
	for command, c := range map[string]struct {
		o     validated
		flags string // without blanks in values
	}{
		"copy":  {NewCopy(), "from=mysql://a@h to=mysql://a@i tables=d.a,d.b*,d.c=d.e schema=e,f exclude=e.x*,e.y objects=views,triggers users=true exclude-users=a,b grant-existing=c map-collation=a=b where=d.a:1 only-shard=d.c:id=1/4 columns=d.a:id,name follow=true ignore-statement=00112233445566778899aabbccddeeff"},
		"split": {NewCopy(), "from=mysql://a@h to-shard=mysql://a@i\nmysql://a@j tables=d.a shard-by=d.a:hash(id) follow=true cutover=true"},
		"merge": {NewCopy(), "from-shard=mysql://a@i\nmysql://a@j to=mysql://a@h tables=d.a shard-by=d.a:hash(id) follow=true"},
		"serve": {NewServe(), "bucket=file:///b data-dir=d history-labels=a=b,c=d tag-labels=route control=mysql://a@h"},
		"store": {NewStore(), "bucket=file:///b"}, "frontend": {NewFrontend(), "downstream=http://a,http://b"},
		"rowstream": {NewRowstream(), "from=mysql://a@h"}, "alter": {NewAlter(), "on=mysql://a@h table=d.a"},
	} {
		flags := make(map[string]string)
		for f := range strings.SplitSeq(c.flags, " ") {
			name, text, _ := strings.Cut(f, "=")
			flags[name] = text
		}
		if _, err := c.o.Load(Input{Flags: flags}); err != nil {
			t.Errorf("%s: %v", command, err)
			continue
		}
		before := shallow(c.o)
		if err := c.o.Validate(); err != nil {
			t.Errorf("%s, again: %v", command, err)
		}
		for name, v := range shallow(c.o) {
			if !reflect.DeepEqual(v, before[name]) && fmt.Sprintf("%+v", v) != fmt.Sprintf("%+v", before[name]) { // functions are not equal to themselves
				t.Errorf("%s: %s was %+v and is %+v", command, name, before[name], v)
			}
		}
	}
}

// shallow returns the exported fields of a pointer to a struct.
func shallow(p any) map[string]any {
	fields := make(map[string]any)
	v := reflect.ValueOf(p).Elem()
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && !f.Anonymous && f.Type.Kind() != reflect.Func {
			fields[f.Name] = v.Field(i).Interface()
		}
	}
	return fields
}

// TestToken reads tokens: those that are given, those in files, and none.
func TestToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("from the file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		token Token
		want  string
		given bool
		err   string
	}{
		{Token{}, "", false, ""},
		{Token{text: NewSecret("given")}, "given", true, ""},
		{Token{file: path}, "from the file", true, ""},
		{Token{file: path + "-none"}, "", true, "read the token: "},
	} {
		got, err := c.token.Read()
		if got != c.want || c.token.given() != c.given || (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

// TestFilesThatCannotBeRead names the file of each option whose file does not exist or is wrong.
func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	none := filepath.Join(dir, "none")
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for text, want := range map[string]string{
		"serve:\n  cpus: 2\n---\n[": "line 4", "serve: {cpus: 2}\n---\nstore: {}\n": ":2: a second document", "serve:\n  cpus: 2\n  cpus: x\n": ":3: cpus is already set in line 2",
		"sevre:\n  cpus: 1\nserve:\n  cpus: 1": ":1: unknown section \"sevre\" (did you mean serve?)",
	} {
		path := write("tare.yaml", text)
		_, err := NewServe().Load(Input{Flags: map[string]string{"config": path}})
		if err == nil || !strings.HasPrefix(err.Error(), path+":") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q alone", text, err, want)
		}
	}
	if _, err := NewServe().Load(Input{Flags: map[string]string{"config": none}}); err == nil || !strings.Contains(err.Error(), "read configuration: ") || !strings.Contains(err.Error(), none) {
		t.Errorf("no configuration: %v", err)
	}
	f := NewFrontend()
	path := write("frontend.yaml", "frontend:\n  downstream: http://h:1\n")
	if _, err := f.Load(Input{Flags: map[string]string{"config": path}}); err != nil {
		t.Fatal(err)
	}
	write("frontend.yaml", "frontend:\n  downstream: http://h:2\n")
	if fresh, err := f.Reload(); err != nil || len(fresh.Options.Downstreams) != 1 || fresh.Options.Downstreams[0].Host != "h:2" || f.Options.Downstreams[0].Host != "h:1" {
		t.Errorf("reloaded: %v, before %v, %v", fresh.Options.Downstreams, f.Options.Downstreams, err)
	}
	write("frontend.yaml", "frontend:\n  downstream: ftp://h\n")
	if _, err := f.Reload(); err == nil {
		t.Error("a wrong file is reloaded")
	}
	for text, errs := range map[string]int{
		"default: {requests: [1], queue: 2}\ntenants:\n  a/b: {queue: 0}\n  c: {queue: 0}\n": 3,
		"default: {requests: [1]}": 1, "tenants: {a/b: {}}": 1, "clients: {h: {queue: x}}": 1,
	} {
		_, err := LoadTenantLimits(write("limits.yaml", text))
		if err == nil || strings.Count(err.Error(), "\n") != errs-1 {
			t.Errorf("%q: %v, want %d errors", text, err, errs)
		}
	}
	if _, err := LoadTenantLimits(none); err == nil || !strings.Contains(err.Error(), none) {
		t.Errorf("no limits: %v", err)
	}
	if _, err := LoadAccounts(write("accounts", "a: x\n"+strings.Repeat("#", maxAccounts-5))); err != nil {
		t.Errorf("accounts of just as many bytes as are allowed: %v", err)
	}
	if _, err := LoadAccounts(write("accounts", "a: x\n"+strings.Repeat("#", maxAccounts-4))); err == nil {
		t.Error("accounts of a byte more are read")
	}
	if _, err := LoadAccounts(dir); err == nil || strings.Contains(err.Error(), "YAML") {
		t.Errorf("a directory: %v", err)
	}
}
