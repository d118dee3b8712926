package main

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/taredb/tare/cmd/tare/internal/config"
)

// releaseFiles is a directory for the manual pages and completions of a release; .ci/release sets it.
var releaseFiles = flag.String("release-files", "", "write manual pages and completions to this directory, dated by SOURCE_DATE_EPOCH")

// TestReleaseFiles generates a manual page for each command and a completion for each shell. Pages have every flag; without -short, man reads
// them without a warning.
func TestReleaseFiles(t *testing.T) {
	dir := *releaseFiles
	if dir == "" {
		dir = t.TempDir()
		t.Setenv("SOURCE_DATE_EPOCH", "1")
	}
	man, completions := filepath.Join(dir, "man", "man1"), filepath.Join(dir, "completions")
	for _, d := range []string{man, completions} {
		must(t, os.MkdirAll(d, 0o755))
	}
	root := newRootCommand()
	addCompletion(root)
	root.DisableAutoGenTag = true
	header := doc.GenManHeader{Section: "1", Source: "tare " + thisBuild().Version, Manual: "Tare"}
	if *releaseFiles == "" {
		header.Date = new(time.Unix(0, 0))
	}
	must(t, doc.GenManTree(root, &header, man))
	pages := 0
	var each func(*cobra.Command)
	each = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			each(sub)
		}
		if !cmd.IsAvailableCommand() && cmd != root || cmd.Name() == "help" {
			return
		}
		name := filepath.Join(man, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1")
		text, err := os.ReadFile(name)
		must(t, err)
		pages++
		plain := strings.ReplaceAll(string(text), `\-`, "-")
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(plain, "--"+f.Name) {
				t.Errorf("%s lacks --%s", name, f.Name)
			}
		})
		if mandoc, err := exec.LookPath("man"); err == nil && !testing.Short() {
			check := exec.Command(mandoc, "--warnings", "--local-file", name)
			check.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "MANWIDTH=80")
			var warnings bytes.Buffer
			check.Stderr = &warnings
			if _, err := check.Output(); err != nil || warnings.Len() > 0 {
				t.Errorf("man %s: %v\n%s", name, err, &warnings)
			}
		}
	}
	each(root)
	if pages < 20 {
		t.Errorf("%d manual pages", pages)
	}
	for shell, name := range map[string]string{"bash": "tare.bash", "zsh": "_tare", "fish": "tare.fish", "powershell": "tare.ps1"} {
		var script, stderr bytes.Buffer
		if code := run(t.Context(), []string{"completion", shell}, &script, &stderr); code != 0 || !strings.Contains(script.String(), "__complete") {
			t.Fatalf("completion %s: exit code %d: %s", shell, code, &stderr)
		}
		must(t, os.WriteFile(filepath.Join(completions, name), script.Bytes(), 0o644))
	}
}

// TestCompletedNames completes names of commands and values of options, which are no files.
func TestCompletedNames(t *testing.T) {
	for line, want := range map[string]string{
		"se": "serve", "help se": "serve", "help config ": "check print", "help nosuch ": "", "help config check ": "", "help config x": "",
		"top --sort ": "load calls mean p99 errors rows", "serve --log-compress ": "none gzip zstd",
	} {
		args := strings.Split(line, " ")
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), append([]string{"__complete"}, args...), &stdout, &stderr); code != 0 {
			t.Fatalf("%q: exit code %d: %s", line, code, &stderr)
		}
		var got []string
		lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
		for _, l := range lines[:len(lines)-1] {
			name, _, _ := strings.Cut(l, "\t")
			got = append(got, name)
		}
		if names := strings.Join(got, " "); names != want || lines[len(lines)-1] != ":4" {
			t.Errorf("%q is completed by %q, %s; want %q, :4", line, names, lines[len(lines)-1], want)
		}
	}
}

// TestSampleConfiguration loads the sample as it is, and with all that is commented out.
func TestSampleConfiguration(t *testing.T) {
	sample, err := os.ReadFile("../../deploy/tare.yaml")
	must(t, err)
	full := wholeSample(sample)
	if n := len(commentedOption.FindAll(sample, -1)); n < 20 {
		t.Errorf("%d options are commented out", n)
	}
	for name, text := range map[string][]byte{"as it is": sample, "whole": full} {
		file := filepath.Join(t.TempDir(), "tare.yaml")
		must(t, os.WriteFile(file, text, 0o600))
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{"config", "check", file}, &stdout, &stderr); code != 0 {
			t.Errorf("%s: exit code %d: %s", name, code, &stderr)
		}
		c := config.NewServe()
		warnings, err := c.Load(config.Input{Flags: map[string]string{"config": file}})
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v, %v", name, err, warnings)
		}
		if name == "whole" && (len(c.Rules) != 1 || !c.History.Enabled()) {
			t.Errorf("the whole sample sets %d rules and a bucket: %t", len(c.Rules), c.History.Enabled())
		}
	}
}

var commentedOption = regexp.MustCompile(`(?m)^  # (  )*((- )?[a-z-]+:( \S.*)?)$`)

// wholeSample returns a sample configuration with the options that are commented out.
func wholeSample(sample []byte) []byte {
	return commentedOption.ReplaceAllFunc(sample, func(line []byte) []byte { return append([]byte("  "), line[len("  # "):]...) })
}

// TestPagesInHelp checks that the pages that help refers to exist; archives and packages have them under the same names.
func TestPagesInHelp(t *testing.T) {
	page := regexp.MustCompile(`docs/[a-z/-]+\.md`)
	found := 0
	var each func(*cobra.Command)
	each = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			each(sub)
		}
		for _, name := range page.FindAllString(cmd.Long+cmd.UsageString(), -1) {
			found++
			if _, err := os.Stat(filepath.Join("../..", name)); err != nil {
				t.Errorf("%s --help: %v", cmd.CommandPath(), err)
			}
		}
	}
	each(newRootCommand())
	if found < 5 {
		t.Errorf("help refers to %d pages", found)
	}
}
