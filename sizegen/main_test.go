package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program runs sizegen in a separate module.
type program struct {
	t   *testing.T
	dir string
}

func newProgram(t *testing.T, files map[string]string) program {
	t.Helper()
	p := program{t, t.TempDir()}
	p.write("go.mod", "module example.com/m\n\ngo 1.25\n")
	for name, text := range files {
		p.write(name, text)
	}
	return p
}

func (p program) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// read returns the content of a file, "" when there is none.
func (p program) read(name string) string {
	text, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	return string(text)
}

// run checks the exit code and that the output contains the given texts.
func (p program) run(args string, code int, stdout, stderr string) {
	p.t.Helper()
	var out, err bytes.Buffer
	got := run(strings.Fields(args), p.dir, &out, &err)
	if got != code || !says(out.String(), stdout) || !says(err.String(), stderr) {
		p.t.Fatalf("sizegen %s: exit code %d, stdout %q, stderr %q; want %d, %q, %q", args, got, &out, &err, code, stdout, stderr)
	}
}

// says reports whether a text contains want, and more than nothing only if want does.
func says(text, want string) bool {
	return strings.Contains(text, want) && (want != "" || text == "")
}

func TestUsage(t *testing.T) {
	p := newProgram(t, nil)
	p.run("", 64, "", "no packages named\nTry: sizegen ./...\n")
	p.run("-nope ./...", 64, "", "Try: sizegen -help")
	p.run("-root Plan ./...", 64, "", "want path.Type")
	p.run("-help", 0, "usage: sizegen", "")
}

// TestRefusals: a failure exits with 1, and nothing is written.
func TestRefusals(t *testing.T) {
	p := newProgram(t, map[string]string{"a.go": "package m\n\n//sizegen:root\ntype Entry struct{ Less func() }\n"})
	p.run("./...", 1, "", "a.go:4: m.Entry.Less: what a func has captured cannot be seen\n")
	p.run("./...", 1, "", "nothing written: 1 not sizable")
	p.run("-root example.com/m.None ./...", 1, "", "root example.com/m.None: no such type")
	p.run("./nowhere", 1, "", "sizegen: load ./nowhere: ")
	p.write("b.go", "package m\n\nimport \"example.com/nowhere\"\n\n//sizegen:root\ntype Other struct{ x *nowhere.T }\n")
	p.run("./...", 1, "", "b.go:6: m.Other.x: ")
	p.write("b.go", "package m\n\nfunc {\n")
	p.run("./...", 1, "", "b.go:3:6: ")
	if p.read("cached_size.go") != "" {
		t.Error("a file was written")
	}
}

// TestUpdate writes what is missing or stale, reports it, and then has nothing more to do.
func TestUpdate(t *testing.T) {
	const root = "package plan\n\n//sizegen:root\ntype Plan struct"
	p := newProgram(t, map[string]string{
		"plan/plan.go":   root + "{ Text string }\n",
		"table/table.go": "package table\n\ntype Table struct{ Name string }\n",
	})
	const output = "plan/cached_size.go"
	p.run("./...", 0, output+"\n", "")
	p.run("-verify ./...", 0, "", "")
	before := p.read(output)
	if before == "" || p.read("table/cached_size.go") != "" {
		t.Fatal("the file of the root is missing, or another was written")
	}

	p.write("plan/plan.go", root+"{\n\tText string\n\tTable []string\n}\n")
	p.run("-verify ./...", 1, "", output+": stale\nsizegen: run it again without -verify")
	if p.read(output) != before {
		t.Error("-verify changed the file")
	}
	p.run("./...", 0, output, "")
	if p.read(output) == before {
		t.Error("the stale file was left")
	}

	// Stale output that no longer fits its types is no obstacle.
	p.write("plan/plan.go", root+"{ Title string }\n\nfunc size(p *Plan) int64 { n, _ := p.CachedSize(nil); return n }\n")
	p.run("./...", 0, output, "")
	if !strings.Contains(p.read(output), "w.String(&p.Title)") {
		t.Error("the renamed field is not walked")
	}

	// Without a root the file is needless.
	p.write("plan/plan.go", "package plan\n\ntype Plan struct{ Text string }\n")
	p.run("-verify ./...", 1, "", output+": stale")
	p.run("./...", 0, output, "")
	if p.read(output) != "" {
		t.Error("the needless file was left")
	}

	// A file of another origin is left alone.
	const theirs = "package plan\n\nconst size = 5\n"
	p.write(output, theirs)
	p.run("./...", 0, "", "")
	p.write("plan/plan.go", root+"{ Text string }\n")
	p.run("./...", 1, "", "not of sizegen")
	if p.read(output) != theirs {
		t.Error("a file of another origin was overwritten")
	}
}

// TestCommittedFilesAreFresh compares the generated files of this command with its output.
func TestCommittedFilesAreFresh(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run([]string{"-verify", "./internal/zoo/..."}, ".", &stdout, &stderr); code != exitOK {
		t.Errorf("sizegen -verify exits with %d; run go generate ./sizegen/...\n%s", code, &stderr)
	}
}
