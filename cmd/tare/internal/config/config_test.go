package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/cmd/tare/internal/config"
)

// file writes a configuration file and returns its path.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tare.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrecedence(t *testing.T) {
	path := file(t, "serve:\n  listen: 127.0.0.1:1\n  max-connections: 1\n  cpus: 1\n")
	c := config.NewServe()
	warnings, err := c.Load(config.Input{
		Flags:   map[string]string{"listen": "127.0.0.1:3"},
		Environ: []string{"TARE_CONFIG=" + path, "TARE_LISTEN=127.0.0.1:2", "TARE_MAX_CONNECTIONS=2", "TARE_CPUS=", "HOME=/"},
	})
	if err != nil || len(warnings) != 0 {
		t.Fatal(err, warnings)
	}
	if c.Listen != "127.0.0.1:3" || c.Gateway.MaxConnections != 2 || c.Gateway.Loops != 1 || c.Gateway.MaxUserConnections != 0 {
		t.Errorf("flag %s, env %d, file %d, default %d; want 127.0.0.1:3, 2, 1, 0", c.Listen, c.Gateway.MaxConnections, c.Gateway.Loops, c.Gateway.MaxUserConnections)
	}
	for name, want := range map[string]string{
		"listen":               "flag --listen",
		"max-connections":      "env TARE_MAX_CONNECTIONS",
		"cpus":                 "file " + path + ":4",
		"max-user-connections": "default",
	} {
		if got := c.Set().Lookup(name).Origin().String(); got != want {
			t.Errorf("origin of %s: got %q, want %q", name, got, want)
		}
	}
}

func TestFlagNamesTheFile(t *testing.T) {
	c := config.NewServe()
	_, err := c.Load(config.Input{
		Flags:   map[string]string{"config": file(t, "serve: {cpus: 3}")},
		Environ: []string{"TARE_CONFIG=/does/not/exist"},
	})
	if err != nil || c.Gateway.Loops != 3 {
		t.Errorf("got %d CPUs and error %v, want 3", c.Gateway.Loops, err)
	}
}

// TestFileErrors checks that each mistake in a file is reported with its line.
func TestFileErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown section", "sevre:\n  cpus: 1", `:1: unknown section "sevre" (did you mean serve?)`},
		{"unknown key", "serve:\n  cpus: 1\n  lisen: 127.0.0.1:1", `:3: unknown key "lisen" in section serve (did you mean listen?)`},
		{"key twice", "serve:\n  cpus: 1\n  cpus: 2", ":3: cpus is already set in line 2"},
		{"section twice", "serve:\n  cpus: 1\nserve:\n  cpus: 2", ":3: serve is already set in line 1"},
		{"second document", "serve:\n  cpus: 1\n---\nserve:\n  cpus: 2", ":3: a second document"},
		{"list for a value", "serve:\n  cpus: [1, 2]", ":2: cpus: want a single value (int)"},
		{"no value", "serve:\n  cpus:", ":2: cpus has no value"},
		{"wrong value", "serve:\n  log-per-digest: 10", `:2: log-per-digest: want a rate such as 10/s, or 0 for no limit, not "10"`},
		{"file names a file", "serve:\n  config: other.yaml", ":2: config cannot be set in the file"},
		{"no mapping", "serve: 1", ":1: want a mapping"},
		{"list on top", "- serve", ":1: want a mapping"},
		{"no YAML", "serve: [", "line 1"},
		{"rules no list", "serve:\n  rules: 1", ":2: rules: want a list"},
		{"rule without name", "serve:\n  rules:\n  - {action: block, users: [app]}", ":3: a rule needs a name"},
		{"rule without action", "serve:\n  rules:\n  - {name: a, users: [app]}", `:3: rule "a" needs an action`},
		{"rule for everything", "serve:\n  rules:\n  - {name: a, action: block}", `:3: rule "a" matches every statement`},
		{"rule named twice", "serve:\n  rules:\n  - {name: a, action: block, users: [x]}\n  - {name: a, action: block, users: [y]}", `:4: rule "a" is named like another`},
		{"unknown action", "serve:\n  rules:\n  - name: a\n    action: stop", `:4: action: want block, read-only or allow, not "stop"`},
		{"unknown rule key", "serve:\n  rules:\n  - name: a\n    user: [x]", `:4: unknown key "user" in a rule (did you mean users?)`},
		{"rule list empty", "serve:\n  rules:\n  - name: a\n    users: []", ":4: users: want a list of texts"},
		{"rule list of lists", "serve:\n  rules:\n  - name: a\n    users: [[x]]", ":4: users: want a text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := file(t, c.text)
			_, err := config.NewServe().Load(config.Input{Flags: map[string]string{"config": path}})
			if err == nil {
				t.Fatalf("accepted:\n%s", c.text)
			}
			if got := strings.TrimPrefix(err.Error(), path); !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestAllErrorsAtOnce(t *testing.T) {
	path := file(t, "serve:\n  cpus: -1\n  http: nowhere\n")
	_, err := config.NewServe().Load(config.Input{
		Flags:   map[string]string{"config": path, "log-original": "maybe"},
		Environ: []string{"TARE_LISTEN=here"},
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{":2: cpus: ", ":3: http: ", "TARE_LISTEN: ", "--log-original: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %q:\n%v", want, err)
		}
	}
}

func TestEmptyFiles(t *testing.T) {
	for _, text := range []string{"", "# nothing yet\n", "serve:\n", "serve:\n  # cpus: 1\n", "serve:\n  rules:\n", "---\n"} {
		if _, err := config.NewServe().Load(config.Input{Flags: map[string]string{"config": file(t, text)}}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAnchors(t *testing.T) {
	c := config.NewServe()
	_, err := c.Load(config.Input{Flags: map[string]string{
		"config": file(t, "serve:\n  connect-timeout: &short 2s\n  handshake-timeout: *short\n"),
	}})
	if err != nil || c.Gateway.HandshakeTimeout != 2*time.Second {
		t.Errorf("got %v and error %v, want 2s", c.Gateway.HandshakeTimeout, err)
	}
}

func TestEnvironmentWarnings(t *testing.T) {
	warnings, err := config.NewServe().Load(config.Input{Environ: []string{
		"TARE_LISEN=127.0.0.1:1", "TARED=1", config.EnvTopPassword + "=secret", config.EnvTopToken + "=secret",
		// variables set by Kubernetes for a service named tare
		"TARE_SERVICE_HOST=10.0.0.1", "TARE_SERVICE_PORT=3316", "TARE_SERVICE_PORT_MYSQL=3316", "TARE_PORT=tcp://10.0.0.1:3316",
		"TARE_PORT_3316_TCP=tcp://10.0.0.1:3316", "TARE_PORT_3316_TCP_ADDR=10.0.0.1",
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"environment variable TARE_LISEN names no option (did you mean TARE_LISTEN?)"}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct{ flags, want string }{
		{"tls-cert=c.pem", "--tls-cert and --tls-key need each other"},
		{"client-tls=verify", "--client-tls verify needs --tls-client-ca"},
		{"tls-client-ca=ca.pem client-tls=required", "--tls-client-ca has no effect without --client-tls verify"},
		{"tls-client-ca=ca.pem client-tls=verify", ""},
		{"client-tls=off tls-cert=c.pem tls-key=k.pem", "--tls-cert has no effect with --client-tls off"},
		{"client-tls=off backend-tls=required", ""},
		{"backend-tls-ca=ca.pem", "--backend-tls-ca has no effect unless --backend-tls, --control-tls or --copies-tls is verify-ca or verify-identity"},
		{"backend-tls-ca=ca.pem backend-tls=verify-ca", ""},
		{"http=0.0.0.0:8316", "--http 0.0.0.0:8316 is open to other machines"},
		{"http=:8316", "--http :8316 is open to other machines"},
		{"http=:8316 web-config-file=web.yaml", ""},
		{"http=:8316 web-accounts-file=accounts.yaml", ""},
		{"http=off web-accounts-file=accounts.yaml", "--web-accounts-file has no effect with --http off"},
		{"http=[::1]:8316", ""},
		{"http=localhost:8316", ""},
		{"http=off", ""},
		{"http=", ""},
		{"http=off web-config-file=web.yaml", "--web-config-file has no effect with --http off"},
		{"http=off copies=mysql://tare@db", "--copies has no effect with --http off"},
		{"listen=127.0.0.1:8316", "--listen and --http are the same address"},
		{"listen=127.0.0.1:0 http=127.0.0.1:0", ""},
		{"listen=127.0.0.1:3306", "the gateway would call itself"},
		{"log-rotate-size=1MiB", "--log-rotate-size has no effect without --log-file with a path"},
		{"log-rotate-age=1h log-file=-", "--log-rotate-age has no effect without --log-file with a path"},
		{"log-compress=gzip log-file=q.log", "--log-compress has no effect without --log-rotate-size or --log-rotate-age"},
		{"log-compress=gzip log-file=q.log log-rotate-age=1h", ""},
		{"log-original=true log-redact=all", "--log-original shows nothing without --log-redact none"},
		{"log-original=true", "--log-original shows nothing without --log-redact none"},
		{"log-original=true log-redact=none", ""},
		{"log-file-mode=0640", "--log-file-mode has no effect without --log-file with a path"},
		{"log-file-mode=0640 log-file=q.log", ""},
		{"log-file-mode=640 log-file=q.log", ""},
		{"log-file-mode=0440 log-file=q.log", "does not let Tare write its own file"},
		{"log-file-mode=rw log-file=q.log", "want permissions in octal digits"},
		{"log-file-mode=7777 log-file=q.log", "want permissions in octal digits"},
		{"log-filter=orders", ""},
		{"log-filter=user=\"app", "no closing quote"},
		{"log-filter=usr=app", "unknown field usr (did you mean user?)"},
		{"log-filter=total_ns>10ms", ""},
		{"data-dir=d", "--data-dir has no effect without --bucket, --log-file or --standby"},
		{"data-dir=d log-file=q.log", ""},
		{"data-dir=d bucket=file:///b", ""},
		{"bucket=file:///b history-interval=500ms", "--history-interval: want 1s to 1m"},
		{"bucket=file:///b history-interval=2m", "--history-interval: want 1s to 1m"},
		{"bucket=file:///b history-local-age=1h", "--history-local-age: want at least 2h"},
		{"bucket=file:///b history-process-bytes=32MiB", "no query could run"},
		{"bucket=file:///b history-labels=cluster=eu,instance=a:1", ""},
		{"bucket=file:///b history-labels=digest=x", "label digest is the history's own"},
		{"bucket=file:///b history-labels=a-b=x", `label name "a-b"`},
		{"bucket=file:///b history-labels=a=1,a=2", "duplicate label a"},
		{"bucket=file:///b history-labels=a", "want labels as name=value"},
		{"bucket=file:///b history-max-digests=0", "--history-max-digests 0 leaves --bucket nothing to keep"},
		{"history-max-digests=0", ""},
		{"history-max-digests=16777217", "--history-max-digests: want at most 16777216"},
		{"history-max-text=33KiB", "--history-max-text: want at most 32KiB"},
		{"history-labels=cluster=eu", "--history-labels has no effect without --bucket"},
	} {
		flags := make(map[string]string)
		for f := range strings.FieldsSeq(c.flags) {
			name, text, _ := strings.Cut(f, "=")
			flags[name] = text
		}
		_, err := config.NewServe().Load(config.Input{Flags: flags})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.flags, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %s", c.flags, err, c.want)
		}
	}
}

func TestBackend(t *testing.T) {
	for _, c := range []struct{ text, addr, err string }{
		{"db:3307", "db:3307", ""},
		{"db", "db:3306", ""},
		{"mysql://db", "db:3306", ""},
		{"mysql://[::1]:3307/", "[::1]:3307", ""},
		{"mysql://app:hunter2@db:3306", "", "clients log in to it with their own"},
		{"app:hunter2@db", "", "clients log in to it with their own"},
		{"/run/mysqld/mysqld.sock", "", "unix_socket"},
		{"unix:/run/mysqld/mysqld.sock", "", "unix_socket"},
		{"mysql+unix:///run/mysqld.sock", "", "unix_socket"},
		{"mysql:///run/mysqld.sock", "", "unix_socket"},
		{"mysql://db/shop", "", "a schema has no place here"},
		{"mysql://db?tls=1", "", "parameters have no place here"},
		{"postgres://db", "", "postgres:// is not mysql://"},
		{"mysql://db:port", "", "want mysql://host:port"},
		{"mysql://db:99999", "", "want host:port"},
		{"mysql://:3306", "", "there is no host"},
		{"", "", "there is no host"},
	} {
		s := config.NewServe()
		_, err := s.Load(config.Input{Flags: map[string]string{"backend": c.text}})
		switch {
		case c.err == "" && (err != nil || string(s.Backend) != c.addr):
			t.Errorf("%q: got %q and error %v, want %q", c.text, s.Backend, err, c.addr)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%q: got error %v, want %q", c.text, err, c.err)
		case err != nil && strings.Contains(err.Error(), "hunter2"):
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

// TestSecrets searches for the password in all output of the package.
func TestSecrets(t *testing.T) {
	const password = "hunter2"
	c := config.NewServe()
	if _, err := c.Load(config.Input{Environ: []string{"TARE_CONTROL=mysql://tare:" + password + "@db:3306"}}); err != nil {
		t.Fatal(err)
	}
	if got := c.Control.Password.Reveal(); got != password || c.Control.User != "tare" || c.Control.Addr != "db:3306" {
		t.Errorf("got %s with password %q", c.Control, got)
	}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		fmt.Fprintf(&out, verb+"\n", c.Control.Password)
		fmt.Fprintf(&out, verb+"\n", c.Control)
		fmt.Fprintf(&out, verb+"\n", *c)
		fmt.Fprintf(&out, verb+"\n", struct{ hidden config.ControlURL }{c.Control})
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "a", c.Control, "b", c.Control.Password, "c", *c)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "a", c.Control, "b", c.Control.Password)
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	if err := errors.Join(config.WriteYAML(&out, config.Sections()), config.WriteJSON(&out, []*config.Set{c.Set()})); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "mysql://tare:xxxxx@db:3306") {
		t.Error("the URL is not shown at all")
	}
	for _, bad := range []string{"mysql://tare:" + password, "mysql://tare:" + password + "@db:x", "mysql://tare:a/" + password + "@db", "x://tare:" + password + "@db", "mysql://tare:" + password + "@db\x7f"} {
		_, err := config.NewServe().Load(config.Input{Flags: map[string]string{"control": bad}})
		if err == nil {
			t.Errorf("accepted %q", bad)
			continue
		}
		out.WriteString(err.Error())
	}
	if i := strings.Index(out.String(), password); i >= 0 {
		t.Errorf("the password is shown: …%s", out.String()[max(0, i-80):i+len(password)])
	}
}

// TestPrintReadsBack checks that WriteYAML's output is a file that gives the same values.
func TestPrintReadsBack(t *testing.T) {
	first := config.NewServe()
	_, err := first.Load(config.Input{Flags: map[string]string{
		"config":        file(t, "serve:\n  rules:\n  - {name: no drops, action: block, types: [drop], message: 'ask: us'}\n"),
		"http":          "off",
		"log-file":      "yes: no #1",
		"log-one-in":    "10",
		"log-file-mode": "0640",
		"log-filter":    `user="a b" total_ns>10ms error_text~#1`,
	}})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := config.WriteYAML(&text, []*config.Set{first.Set()}); err != nil {
		t.Fatal(err)
	}
	second := config.NewServe()
	if _, err := second.Load(config.Input{Flags: map[string]string{"config": file(t, text.String())}}); err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	for _, o := range first.Set().Options() {
		if got := second.Set().Lookup(o.Name).Text(); o.InFile() && got != o.Text() {
			t.Errorf("%s: read back %q, want %q", o.Name, got, o.Text())
		}
	}
	for i := range first.Rules {
		first.Rules[i].Place, second.Rules[i].Place = "", ""
	}
	if diff := cmp.Diff(first.Rules, second.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

// TestReload reloads files without rules, with other ones, and with other options.
func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tare.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const rule = "    - {name: %s, action: block, types: [%s]}\n"
	rules := func(pairs ...string) string {
		var text strings.Builder
		text.WriteString("serve:\n  rules:\n")
		for i := 0; i < len(pairs); i += 2 {
			fmt.Fprintf(&text, rule, pairs[i], pairs[i+1])
		}
		return text.String()
	}
	write(rules("a", "ddl", "b", "set", "c", "do"))
	c := config.NewServe()
	if _, err := c.Load(config.Input{Flags: map[string]string{"config": path, "cpus": "3"}}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "# nothing\n", "serve:\n", "serve:\n  rules:\n", "store: {}\n", "serve:\n  cpus: 2\n", "serve:\n  rules:\n    - {name: a, act", rules("a", "ddl") + "  unknown: 1\n"} {
		write(text)
		if r, err := c.Reload(c.Rules); err == nil {
			t.Errorf("%q was accepted: %+v", text, r)
		}
	}
	write("serve:\n  rules: []\n")
	if r, err := c.Reload(c.Rules); err != nil || len(r.Rules) != 0 || len(r.Changes.Removed) != 3 {
		t.Errorf("an empty list: %+v, %v", r, err)
	}
	write(rules("d", "kill", "c", "do", "a", "ddl", "e", "do") + "  max-connections: 7\n  cpus: 5\n  control: mysql://u:secret@db\n")
	r, err := c.Reload(c.Rules)
	if err != nil {
		t.Fatal(err)
	}
	want := config.RuleChanges{Added: []string{"d", "e"}, Removed: []string{"b"}, Changed: []string{"c", "a"}}
	if diff := cmp.Diff(want, r.Changes); diff != "" {
		t.Errorf("changes: %s", diff)
	}
	if diff := cmp.Diff([]string{"control", "max-connections"}, r.Restart); diff != "" {
		t.Errorf("options that require a restart: %s", diff) // cpus is a flag, which wins
	}
	write(rules("a", "drop"))
	if r, err := c.Reload(c.Rules); err != nil || !slices.Equal(r.Changes.Changed, []string{"a"}) {
		t.Errorf("another type: %+v, %v", r, err)
	}
	write("serve:\n")
	if r, err := c.Reload(nil); err != nil || r.Rules != nil {
		t.Errorf("no rules before and after: %+v, %v", r, err)
	}
	if r, err := config.NewServe().Reload(nil); err != nil || r.Rules != nil {
		t.Errorf("without a file: %+v, %v", r, err)
	}
}
