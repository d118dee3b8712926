package gen

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what was generated into the transcripts")

// TestGolden runs the transcripts in testdata. Each command writes a module from the files in its input and
// generates code for it:
//
//	gen [root=path.Type] [packages=./x] [show=file]
//	files
//	----
//	----
//	output
//	----
//	----
//
// The output is the problems, and the generated files, or those selected by show. Rewrite the transcripts by
// go test -rewrite.
func TestGolden(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d transcripts, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := transcript(t, string(text))
			switch {
			case got == string(text):
			case *rewrite:
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("%s differs from line %d on; rewritten with -rewrite it is\n%s", path, firstDifference(got, string(text)), got)
			}
		})
	}
}

func firstDifference(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return 1 + strings.Count(a[:n], "\n")
}

const fence = "----\n----\n"

// A command of a transcript.
type command struct {
	prose  string // the input: text before the command, the command, and its files
	args   []string
	files  string
	output string
}

// commands returns the commands of a text.
func commands(t *testing.T, text string) (all []command) {
	t.Helper()
	for strings.TrimSpace(text) != "" {
		input, rest, _ := strings.Cut(text, fence)
		output, rest, ok := strings.Cut(rest, fence)
		at := strings.Index("\n"+input, "\ngen")
		if at < 0 || !ok {
			t.Fatalf("no command, or no output, in\n%s", input)
		}
		line, files, _ := strings.Cut(input[at:], "\n")
		all = append(all, command{prose: input, args: strings.Fields(line)[1:], files: files, output: output})
		text = rest
	}
	return all
}

// transcript runs the commands of a text and returns it with their output.
func transcript(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	for _, c := range commands(t, text) {
		b.WriteString(c.prose + fence + generate(t, c.args, c.files) + fence)
	}
	return b.String()
}

// config writes the files of a command, and returns its configuration and the file to show.
func config(t *testing.T, args []string, files string) (cfg Config, show string) {
	t.Helper()
	cfg = Config{Dir: t.TempDir(), Patterns: []string{"./..."}}
	for _, arg := range args {
		switch name, value, _ := strings.Cut(arg, "="); name {
		case "show":
			show = value
		case "packages":
			cfg.Patterns[0] = value
		case "root":
			cfg.Roots = []string{value}
		default:
			t.Fatalf("unknown argument %s", arg)
		}
	}
	writeFiles(t, cfg.Dir, parseArchive(files))
	return cfg, show
}

// generate runs one command and returns its output.
func generate(t *testing.T, args []string, files string) string {
	t.Helper()
	cfg, show := config(t, args, files)
	written, problems, err := Generate(cfg)
	if err != nil {
		return strings.ReplaceAll(err.Error(), cfg.Dir, "$DIR") + "\n"
	}
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintln(&b, p)
	}
	if slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning }) {
		return b.String()
	}
	checkCompiles(t, cfg.Dir, written)
	for _, f := range written {
		rel, err := filepath.Rel(cfg.Dir, f.Path)
		if err != nil {
			t.Fatal(err)
		}
		if f.Data == nil || show != "" && filepath.ToSlash(rel) != show {
			continue
		}
		fmt.Fprintf(&b, "-- %s --\n%s", filepath.ToSlash(rel), f.Data)
	}
	return b.String()
}

// parseArchive returns the files of a module: each follows a line "-- name --"; text before the first is
// a.go.
func parseArchive(text string) map[string]string {
	files := map[string]string{"go.mod": "module example.com/m\n\ngo 1.25\n"}
	name := "a.go"
	for line := range strings.Lines(text) {
		if n, ok := strings.CutPrefix(line, "-- "); ok {
			name = strings.TrimSuffix(n, " --\n")
			files[name] = ""
			continue
		}
		files[name] += line
	}
	if strings.TrimSpace(files["a.go"]) == "" {
		delete(files, "a.go")
	}
	return files
}

func writeFiles(tb testing.TB, dir string, files map[string]string) {
	tb.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
}

// checkCompiles writes the files and type-checks the module with them, tests included.
func checkCompiles(t *testing.T, dir string, files []File) {
	t.Helper()
	for _, f := range files {
		if f.Data == nil {
			continue
		}
		if err := os.WriteFile(f.Path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// The module uses this module's heapsize, which requires only the standard library.
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	lib := map[string]string{
		"go.mod":     string(mod) + "\nrequire " + modulePath + " v0.0.0\n\nreplace " + modulePath + " => ./lib\n",
		"lib/go.mod": "module " + modulePath + "\n\ngo 1.25\n",
	}
	sources, err := filepath.Glob("../../heapsize/*.go")
	if err != nil || len(sources) == 0 {
		t.Fatal("no sources of heapsize: ", err)
	}
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lib["lib/heapsize/"+filepath.Base(name)] = string(text)
	}
	writeFiles(t, dir, lib)
	vet := exec.Command("go", "vet", "./...")
	vet.Dir = dir
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("what was generated: go vet: %v\n%s", err, out)
	}
}

// TestDeterministic generates code twice for an input with several items of each kind.
func TestDeterministic(t *testing.T) {
	cfg := Config{Dir: "../..", Patterns: []string{"./internal/zoo/..."}}
	first, problems, err := Generate(cfg)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	for range 3 {
		again, _, err := Generate(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for i := range first {
			if again[i].Path != first[i].Path || string(again[i].Data) != string(first[i].Data) {
				t.Errorf("%s differs from run to run", first[i].Path)
			}
		}
	}
}

// TestCgo generates code for a package whose files all use cgo. What cgo generates has no line for a directive:
// it is named.
func TestCgo(t *testing.T) {
	enabled, err := exec.Command("go", "env", "CGO_ENABLED").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(enabled)) != "1" {
		t.Skip("cgo is not enabled")
	}
	t.Setenv("GOFLAGS", "-trimpath "+os.Getenv("GOFLAGS")) // positions are those of the source all the same
	const files = `package a

/*
typedef struct { int n; char *text; void *state; } item;
*/
import "C"

%s//sizegen:root
type Entry struct {
	item *C.item
	name string
}
`
	const say = "//sizegen:field example.com/m._Ctype_struct___0.state shared what it points to belongs to another owner\n"
	got := generate(t, nil, fmt.Sprintf(files, ""))
	if want := "a.go:10:2: a.Entry.item: a._Ctype_struct___0.state: what an unsafe.Pointer points to cannot be seen\n\ttry: " + say; got != want {
		t.Errorf("problems:\n%s\nwant:\n%s", got, want)
	}
	if got := generate(t, nil, fmt.Sprintf(files, say)); !strings.Contains(got, "unsafe.Pointer(p.text)") {
		t.Errorf("the item is not walked:\n%s", got)
	}
	t.Setenv("CC", "false")
	if got, want := generate(t, nil, fmt.Sprintf(files, "")), "a.go:10:2: a.Entry.item: its type does not type-check: go vet the package\n"; got != want {
		t.Errorf("problems without a C compiler:\n%s\nwant:\n%s", got, want)
	}
}
