package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/internal/doccommands"
)

// placeholders replaces the parts of documented commands that the reader has to fill in.
func placeholders() *strings.Replacer {
	return strings.NewReplacer(
		"tare copy …", "tare copy --from mysql://app:secret@db1 --to mysql://app:secret@db2 --tables shop.orders",
		" …", "",
		"[--", "--", "]", "", // a synopsis
		"ADDR", "127.0.0.1:0", "DIR", "import", "/etc/tare/tare.yaml", "tare.yaml",
	)
}

// uncheckedPrograms are programs whose command lines can be checked only by running them.
func uncheckedPrograms() map[string]string {
	const e2e = "e2e runs it"
	return map[string]string{
		"git": "clones the public repository", "docker": "needs docker", "systemctl": "needs systemd as init",
		"systemd-sysusers": e2e, "install": e2e, "mysql": e2e, "curl": e2e, "kill": e2e, "mkdir": e2e, "grep": "part of a pipe",
		"benchstat": "reads files of measurements", "apt": "make install-drills installs the package", "sha256sum": "TestRelease of e2e runs it", "minisign": "TestRelease of e2e runs it", "tar": "TestRelease of e2e runs it",
	}
}

// TestDocumentedCommands checks that the commands of README.md, docs and deploy refer to existing things:
// subcommands, flags with values that are valid together, make targets, tests, benchmarks, directories and
// files. Nothing is started; TestDocumentedCommands of e2e runs the commands.
func TestDocumentedCommands(t *testing.T) {
	root, err := filepath.Abs("../..")
	must(t, err)
	pages, err := doccommands.Pages(root)
	must(t, err)
	home := t.TempDir()
	t.Chdir(home)
	for name, text := range map[string]string{
		"tare.yaml": "serve:\n  listen: 127.0.0.1:3316\n", "token": "secret\n", ".tare-password": "secret\n", "ca.pem": string(testAuthority(t)),
	} {
		must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	// Files that a command writes must not reach the account that runs the test.
	for _, name := range []string{"HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"} {
		t.Setenv(name, home)
	}
	c := documented{root: root, unchecked: uncheckedPrograms(), env: map[string]string{
		"HOME": home, "PWD": home, "DSN": "app:secret@tcp(127.0.0.1:1)/test", "PID": "1", "URL": "http://127.0.0.1:1/metrics",
	}}
	replace := placeholders()
	n := 0
	for _, page := range pages {
		commands, err := doccommands.Read(root, page)
		if err != nil {
			t.Error(err)
		}
		for _, command := range commands {
			calls, err := doccommands.Calls(replace.Replace(command.Text), c.env)
			if err != nil {
				t.Errorf("%s: %v", command, err)
			}
			for _, call := range calls {
				n++
				skipped, err := c.check(t, call)
				if err != nil {
					t.Errorf("%s: %v", command, err)
				} else if skipped != "" {
					t.Logf("not checked: %s: %s: %s", command, call.Args[0], skipped)
				}
			}
		}
	}
	if n < 80 {
		t.Errorf("%d calls on %d pages: some are missing", n, len(pages))
	}
}

// testAuthority returns a certificate in PEM.
func testAuthority(t *testing.T) []byte {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// documented checks calls against the repository.
type documented struct {
	root      string
	env       map[string]string
	unchecked map[string]string
}

// check returns the reason why a call was not checked, "" if it was.
func (c *documented) check(t *testing.T, call doccommands.Call) (skipped string, err error) {
	switch program := call.Args[0]; program {
	case "tare", "bin/tare":
		return "", checkTare(t, call.Args[1:])
	case "make":
		return "", c.checkMake(call.Args[1:])
	case "go":
		return c.checkGo(call)
	case "e2e/run":
		call.Args = append([]string{"go", "test", "./e2e"}, call.Args[1:]...)
		return c.checkGo(call)
	case "promtool":
		return c.checkPromtool(call)
	default:
		why, ok := c.unchecked[program]
		if !ok {
			return "", fmt.Errorf("%s: no check: add one to documented.check, or a reason to uncheckedPrograms", program)
		}
		return why, nil
	}
}

// checkTare validates a command line of tare like a run, without starting a server or a copy.
func checkTare(t *testing.T, args []string) error {
	root := newRootCommand()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if sectionOf(cmd) == nil {
		// It runs, but interrupted from the start and with nothing to connect to: 64 is a usage error.
		ctx, stop := context.WithCancel(t.Context())
		stop()
		var out bytes.Buffer
		if code := run(ctx, args, &out, &out); code == 64 {
			return fmt.Errorf("a usage error: %s", &out)
		}
		return nil
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err
	}
	options := sectionOf(cmd)
	if a, ok := options.(*config.Alter); ok {
		a.Queue = cmd.Flags().Changed("queue")
	}
	given := make(map[string]string)
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if text, ok := f.Value.(*flagText); ok {
			given[text.option.Name] = text.text
		}
	})
	if _, err := options.Load(config.Input{Flags: given}); err != nil {
		return err
	}
	if o, ok := options.(interface{ Ready() error }); ok {
		return o.Ready()
	}
	return nil
}

// sectionOf returns the options of a subcommand that has a section, nil for others.
func sectionOf(cmd *cobra.Command) config.Command {
	for _, c := range config.Commands() {
		if cmd.CommandPath() == "tare "+c.Set().Name {
			return c
		}
	}
	return nil
}

// checkMake searches the Makefile for the target and for the variables given.
func (c *documented) checkMake(args []string) error {
	text, err := os.ReadFile(filepath.Join(c.root, "Makefile"))
	if err != nil {
		return err
	}
	for _, arg := range args {
		variable, _, isVariable := strings.Cut(arg, "=")
		switch {
		case isVariable && !strings.Contains(string(text), "$("+variable+")"):
			return fmt.Errorf("the Makefile uses no variable %s", variable)
		case !isVariable && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(arg)+`:`).Match(text):
			return fmt.Errorf("the Makefile has no target %s", arg)
		}
	}
	return nil
}

// checkGo searches for the package, and for the tests, benchmarks or flags named.
func (c *documented) checkGo(call doccommands.Call) (skipped string, err error) {
	if call.Args[1] == "tool" {
		return "e2e runs it", nil
	}
	dir := filepath.Join(c.root, call.Dir)
	if len(call.Args) > 3 && call.Args[2] == "-C" {
		dir = filepath.Join(dir, call.Args[3])
	}
	names := map[string]string{} // by flag
	var flags []string
	i := slices.IndexFunc(call.Args, func(arg string) bool { return strings.HasPrefix(arg, "./") })
	if i >= 0 {
		dir = filepath.Join(dir, call.Args[i])
	}
	for j, arg := range call.Args {
		if strings.HasPrefix(arg, "-") && j > i {
			flags = append(flags, strings.TrimLeft(arg, "-"))
		}
		if (arg == "-run" || arg == "-bench") && j+1 < len(call.Args) {
			names[arg] = call.Args[j+1]
		}
	}
	declared, text, err := goFiles(dir)
	if err != nil {
		return "", err
	}
	if call.Args[1] == "run" {
		for _, f := range flags {
			if !strings.Contains(text, fmt.Sprintf("(%q, ", f)) && !strings.Contains(text, fmt.Sprintf(", %q, ", f)) {
				return "", fmt.Errorf("%s has no flag -%s", call.Args[i], f)
			}
		}
		return "", nil
	}
	for flag, prefix := range map[string]string{"-run": "Test", "-bench": "Benchmark"} {
		name, ok := names[flag]
		if !ok || name == "^$" {
			continue
		}
		name, _, _ = strings.Cut(name, "/")
		re, err := regexp.Compile(name)
		if err != nil {
			return "", err
		}
		if !slices.ContainsFunc(declared, func(d string) bool { return strings.HasPrefix(d, prefix) && re.MatchString(d) }) {
			return "", fmt.Errorf("%s has no %s%s", dir, prefix, name)
		}
	}
	return "", nil
}

// goFiles returns the functions and the text of a package's files.
func goFiles(dir string) (functions []string, text string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no Go files", dir)
	}
	if err != nil {
		return nil, "", err
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, "", err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				functions = append(functions, f.Name.Name)
			}
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, "", err
		}
		text += string(source)
	}
	return functions, text, nil
}

// checkPromtool searches for the files of check and test.
func (c *documented) checkPromtool(call doccommands.Call) (skipped string, err error) {
	if call.Args[1] == "query" {
		return "e2e runs it", nil
	}
	for _, arg := range call.Args[3:] {
		if _, err := os.Stat(filepath.Join(c.root, call.Dir, arg)); err != nil {
			return "", err
		}
	}
	return "", nil
}

// TestDocumentedCommandsAreChecked checks that each kind of mistake in a command is found.
func TestDocumentedCommandsAreChecked(t *testing.T) {
	root, err := filepath.Abs("../..")
	must(t, err)
	t.Chdir(t.TempDir())
	c := documented{root: root, unchecked: uncheckedPrograms()}
	for _, text := range []string{
		"tare serf", "tare serve --no-such-flag", "tare serve --max-connections many", "tare serve extra", "tare store", "tare copy --from mysql://a@b --to mysql://a@c",
		"tare top --sort size", "tare copy ctl stop", "tare copy ctl throttle", "tare config check", "bin/tare demo --for soon",
		"make no-such-target", "make fuzz NO_SUCH=1", "go test -run TestNone ./mysql/sqldigest", "go test -run '^$' -bench None ./mysql/sqldigest",
		"cd bench && go run ./none", "cd bench && go run ./copy -no-such-flag", "promtool check rules deploy/none.yaml", "wget http://h",
	} {
		calls, err := doccommands.Calls(text, nil)
		must(t, err)
		if len(calls) != 1 {
			t.Fatalf("%s: %v", text, calls)
		}
		if skipped, err := c.check(t, calls[0]); err == nil {
			t.Errorf("%s: no error, skipped: %q", text, skipped)
		}
	}
}

// TestNegativeDurations gives each option of each command that is a duration a negative value, which the error names.
func TestNegativeDurations(t *testing.T) {
	tried := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		if !cmd.Runnable() {
			return
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() != "duration" {
				return
			}
			tried++
			args := append(strings.Fields(cmd.CommandPath())[1:], "--"+f.Name+"=-1s")
			if cmd.ValidateArgs(nil) != nil {
				args = append(args, "x")
			}
			var out bytes.Buffer
			if code := run(t.Context(), args, &out, &out); code != exitUsage || !strings.Contains(out.String(), "--"+f.Name+" -1s: want a duration") {
				t.Errorf("%q: exit %d: %s", args, code, &out)
			}
		})
	}
	visit(newRootCommand())
	if tried < 40 {
		t.Errorf("%d options: the test finds too few", tried)
	}
}
