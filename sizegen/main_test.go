package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
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

// requireHeapsize makes the module require this one.
func (p program) requireHeapsize() {
	p.t.Helper()
	here, err := os.Getwd()
	if err != nil {
		p.t.Fatal(err)
	}
	for _, dir := range []string{"heapsize", "heaptest"} {
		files, err := filepath.Glob(filepath.Join(here, dir, "*.go"))
		if err != nil || len(files) == 0 {
			p.t.Fatal(len(files), err)
		}
		for _, name := range files {
			if text, err := os.ReadFile(name); err != nil {
				p.t.Fatal(err)
			} else if !strings.HasSuffix(name, "_test.go") {
				p.write("lib/"+dir+"/"+filepath.Base(name), string(text))
			}
		}
	}
	const module = "github.com/taredb/tare/sizegen"
	p.write("lib/go.mod", "module "+module+"\n\ngo 1.25\n")
	p.write("go.mod", "module example.com/m\n\ngo 1.25\n\nrequire "+module+" v0.0.0\n\nreplace "+module+" => ./lib\n")
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

// says reports whether a text contains want; an empty want requires an empty text.
func says(text, want string) bool {
	return strings.Contains(text, want) && (want != "" || text == "")
}

func TestUsage(t *testing.T) {
	p := newProgram(t, nil)
	p.run("", 64, "", "no packages named\nTry: sizegen ./...\n")
	p.run("-nope ./...", 64, "", "Try: sizegen -help")
	p.run("-root Plan ./...", 64, "", "want path.Type")
	p.run("-verify -measure ./...", 64, "", "exclude each other")
	p.run("-help", 0, "usage: sizegen", "")
}

// TestRefusals checks that a failure exits with 1 and writes nothing.
func TestRefusals(t *testing.T) {
	p := newProgram(t, map[string]string{"a.go": "package m\n\n//sizegen:root\ntype Entry struct{ Less func() }\n"})
	p.run("./...", 1, "", "a.go:4:20: m.Entry.Less: what a func has captured cannot be seen\n")
	p.run("./...", 1, "", "nothing written: 1 not sizable")
	p.run("-root example.com/m.None ./...", 1, "", "root example.com/m.None: no such type")
	p.run("./nowhere", 1, "", "sizegen: load ./nowhere: ")
	p.write("b.go", "package m\n\nimport \"example.com/nowhere\"\n\n//sizegen:root\ntype Other struct{ x *nowhere.T }\n")
	p.run("./...", 1, "", "b.go:6:20: m.Other.x: ")
	p.write("b.go", "package m\n\nfunc {\n")
	p.run("./...", 1, "", "b.go:3:6: ")
	if p.read("cached_size.go") != "" {
		t.Error("a file was written")
	}
}

// TestUpdate writes missing and stale files, reports them, and then has nothing left to do.
func TestUpdate(t *testing.T) {
	const root = "package plan\n\n//sizegen:root\ntype Plan struct"
	p := newProgram(t, map[string]string{
		"plan/plan.go":   root + "{ Text string }\n",
		"table/table.go": "package table\n\ntype Table struct{ Name string }\n",
	})
	const output = "plan/cached_size.go"
	p.run("./...", 0, output+"\n", "the files do not compile yet: no required module provides github.com/taredb/tare/sizegen/heapsize: go get github.com/taredb/tare/sizegen\n")
	p.run("-verify ./...", 1, "", "the packages with generated files do not compile")
	p.requireHeapsize()
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

	// Without a root the file is superfluous.
	p.write("plan/plan.go", "package plan\n\ntype Plan struct{ Text string }\n")
	p.run("-verify ./...", 1, "", output+": stale")
	p.run("./...", 0, output, "")
	if p.read(output) != "" {
		t.Error("the needless file was left")
	}

	// A file of another origin is left alone.
	const theirs = "package plan\n\nconst size = 5\n"
	p.write(output, theirs)
	p.run("./...", 0, "", "sizegen: no roots in these packages\nTry: //sizegen:root above a type")
	p.write("plan/plan.go", root+"{ Text string }\n")
	p.run("./...", 1, "", "not of sizegen")
	if p.read(output) != theirs {
		t.Error("a file of another origin was overwritten")
	}
}

// TestExplain prints where bytes are counted, shared and skipped, for types of this module and others.
func TestExplain(t *testing.T) {
	p := newProgram(t, map[string]string{"a.go": `package m

import "net/url"

type Entry struct {
	Name string
	ID   int
	//sizegen:shared one per process
	Table *[]string
	Next  *Entry
	Value any
	URL   *url.URL
	At    func()
}
`})
	p.run("-explain example.com/m.Entry ./...", 0, `m.Entry
  Name string: string
  ID int: no pointers
  Table *[]string: shared: one per process
  Next *m.Entry: object
    m.Entry (above)
  Value any
    one of 18 types, box, string, array, map
    any (above)
    bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64, string, []uint8, []string, []any, map[string]any
  URL *url.URL: object
    Scheme string: string
`, "a.go:13:2: m.Entry.At: what a func")
	p.run("-explain net/url.Userinfo ./...", 0, "url.Userinfo\n  username string: string\n  password string: string\n  passwordSet bool: no pointers\n", "")
	p.run("-explain container/list.List ./...", 0, "list.List\n  root list.Element\n", "list.Element.Value: an any of another module") // not imported
	p.run("-explain example.com/m.None ./...", 1, "", "no such type")
	p.run("-explain list.List ./...", 1, "", "want path.Type, such as net/url.URL")
}

// TestMeasure compares the walks of this module's own types with the heap, and leaves no files.
func TestMeasure(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run([]string{"-measure", "./internal/zoo/..."}, ".", &stdout, &stderr); code != exitOK {
		t.Fatalf("sizegen -measure exits with %d\n%s", code, &stderr)
	}
	var values, accounted, heap int64
	var off float64
	if _, err := fmt.Sscanf(stdout.String(), "zoo.Cage: %d random values, %d bytes accounted, %d real, %g %%;", &values, &accounted, &heap, &off); err != nil {
		t.Fatalf("%q: %v", &stdout, err)
	}
	if values < 1000 || accounted < 1e6 || heap < 1e6 || off < -1 || off > 1 {
		t.Errorf("%s", &stdout)
	}
	if left, err := filepath.Glob("internal/zoo/zz_*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestMeasureValues measures values that a test of the package returns: those of a parser that keeps positions within its
// tokens, with a directive for them, without, and declared away; with vendored modules, too.
func TestMeasureValues(t *testing.T) {
	const types = `package m

import "strings"

type Position struct{ Line, Column int; Source *string }

type Token struct {
	Kind int
	Text string
	Pos  Position
}

type Node struct {
	Name string
	At   *Position
	Next *Node
}

func Parse(text string) (first *Node) {
	for _, word := range strings.Fields(text) {
		t := &Token{Text: word}
		first = &Node{Name: t.Text, At: &t.Pos, Next: first}
	}
	return first
}

//sizegen:root
type Tree struct {
	%s
	First *Node
}
`
	tree := func(field string) string { return fmt.Sprintf(types, field) }
	p := newProgram(t, map[string]string{
		"a.go": tree(""),
		"a_test.go": `package m

import "fmt"

//sizegen:values
func trees(i int) *Tree { return &Tree{Parse(fmt.Sprint("select ", i, " from accounts where name = 'x' and this text is long"))} }
`,
	})
	p.run("-measure ./...", 1, "", "no required module provides github.com/taredb/tare/sizegen/heaptest: go get github.com/taredb/tare/sizegen\n")
	p.requireHeapsize()
	const inside = "//sizegen:inside Token.Pos the parser keeps its tokens"
	p.run("-measure ./...", 1, "m.Tree: 2000 random values, ", "m.Tree: size of example.com/m.Node.At: it points to ")
	p.write("a.go", tree("//sizegen:shared it belongs to another owner"))
	p.run("-measure ./...", 1, "99 % of the bytes are behind shared", "m.Tree: most of what it holds is declared away by directives")
	p.write("a.go", strings.Replace(tree(""), "type Position", inside+"\ntype Position", 1))
	p.run("-measure ./...", 0, "m.Tree: 2000 values of trees, detached, ", "")
	var out, stderr bytes.Buffer
	run([]string{"-measure", "./..."}, p.dir, &out, &stderr)
	var accounted, heap int64
	line := out.String()[strings.Index(out.String(), "\n")+1:]
	if _, err := fmt.Sscanf(line, "m.Tree: 2000 values of trees, detached, %d bytes accounted, %d real,", &accounted, &heap); err != nil || accounted < heap*99/100 || accounted > heap*101/100 {
		t.Errorf("%s%v", line, err)
	}

	p.run("./...", 0, "cached_size.go\n", "")
	vendor := exec.Command("go", "mod", "vendor")
	vendor.Dir = p.dir
	if out, err := vendor.CombinedOutput(); err != nil {
		t.Fatalf("go mod vendor: %v\n%s", err, out)
	}
	p.run("-measure ./...", 0, "m.Tree: 2000 values of trees, detached, ", "") // heaptest is not vendored
	p.run("-verify ./...", 0, "", "")
	if err := os.RemoveAll(filepath.Join(p.dir, "vendor", "github.com", "taredb")); err != nil {
		t.Fatal(err)
	}
	p.run("-verify ./...", 1, "", "Try: vendor/ has no github.com/taredb/tare/sizegen/heapsize: go mod vendor\n")

	p.write("b.go", "package m\n\n//sizegen:values\ntype Other struct{}\n")
	p.write("a_test.go", "package m\n\n//sizegen:values\nfunc trees() *Tree { return nil }\n")
	p.run("./...", 1, "", "a_test.go:3:1: //sizegen:values: it is said of a function of the package m, not of its external test: func name(i int) *Root\n"+
		"b.go:3:1: //sizegen:values: values is said of a function in a test file of the package: func name(i int) *Root\n")
}

// TestCommittedFilesAreFresh compares the generated files of this command with its output.
func TestCommittedFilesAreFresh(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run([]string{"-verify", "./internal/zoo/..."}, ".", &stdout, &stderr); code != exitOK {
		t.Errorf("sizegen -verify exits with %d; run go generate ./sizegen/...\n%s", code, &stderr)
	}
}
