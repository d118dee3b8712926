package gen

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/txtar"
)

// TestGolden runs the transcripts in testdata. Each command writes a module of the files in
// its input and generates for it:
//
//	gen [root=path.Type] [packages=./x] [show=file]
//
// The output is the written files, or those that show names; or the problems. Rewrite the
// transcripts with go test -rewrite.
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Parallel()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "gen" {
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			cfg := Config{Dir: t.TempDir(), Patterns: []string{"./..."}}
			var show string
			if d.HasArg("show") {
				d.ScanArgs(t, "show", &show)
			}
			if d.HasArg("packages") {
				d.ScanArgs(t, "packages", &cfg.Patterns[0])
			}
			if d.HasArg("root") {
				cfg.Roots = make([]string, 1)
				d.ScanArgs(t, "root", &cfg.Roots[0])
			}
			writeModule(t, cfg.Dir, d.Input)
			files, problems, err := Generate(cfg)
			switch {
			case err != nil:
				return strings.ReplaceAll(err.Error(), cfg.Dir, "$DIR") + "\n"
			case len(problems) > 0:
				var b strings.Builder
				for _, p := range problems {
					fmt.Fprintln(&b, p)
				}
				return b.String()
			}
			checkCompiles(t, cfg.Dir, files)
			var b strings.Builder
			for _, f := range files {
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
		})
	})
}

// writeModule writes the files of a txtar archive; text before the first file is a.go.
func writeModule(tb testing.TB, dir, text string) {
	tb.Helper()
	a := txtar.Parse([]byte(text))
	files := map[string]string{"go.mod": "module example.com/m\n\ngo 1.26\n"}
	if len(strings.TrimSpace(string(a.Comment))) > 0 {
		files["a.go"] = string(a.Comment)
	}
	for _, f := range a.Files {
		files[f.Name] = string(f.Data)
	}
	writeFiles(tb, dir, files)
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

// checkCompiles writes the files and type-checks the module with them.
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
	// The module gets this one's heapsize, which needs nothing but the standard library.
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	tare := map[string]string{
		"go.mod":      string(mod) + "\nrequire github.com/taredb/tare v0.0.0\n\nreplace github.com/taredb/tare => ./tare\n",
		"tare/go.mod": "module github.com/taredb/tare\n\ngo 1.26\n",
	}
	sources, err := filepath.Glob("../../../../heapsize/*.go")
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
		tare["tare/heapsize/"+filepath.Base(name)] = string(text)
	}
	writeFiles(t, dir, tare)
	pkgs, err := packages.Load(&packages.Config{Mode: loadMode &^ packages.NeedDeps, Dir: dir, Tests: true}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	packages.Visit(pkgs, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			t.Errorf("%s does not compile with what was generated: %v", p.ID, e)
		}
	})
}

// TestDeterministic generates twice what has many of everything.
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
