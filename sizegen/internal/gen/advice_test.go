package gen

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

var allAdvice = flag.Bool("all", false, "TestAdvice and TestAdviceStandard apply the suggestions for the standard library's types, which take long to load, too")

// TestAdvice applies the suggestions of the transcripts literally: each directive is inserted at its
// position, and the code is generated again, until there are no further suggestions: after three rounds at most. Then it
// compiles.
func TestAdvice(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d transcripts, %v", len(paths), err)
	}
	var followed atomic.Int64
	t.Run("transcripts", func(t *testing.T) {
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range commands(t, string(text)) {
				if !strings.Contains(c.output, "\ttry: ") || strings.Contains(path, "standard") && !*allAdvice {
					continue
				}
				t.Run(filepath.Base(path), func(t *testing.T) {
					t.Parallel()
					followed.Add(int64(followAdvice(t, c)))
				})
			}
		}
	})
	if n := followed.Load(); n < 20 {
		t.Errorf("%d suggestions followed, want 20", n)
	}
}

// TestAdviceStandard applies the suggestions for types of the standard library that caches should not
// contain.
func TestAdviceStandard(t *testing.T) {
	if !*allAdvice {
		t.Skip("with -all only: it loads much of the standard library")
	}
	const files = `package a

import (
	"bufio"
	"database/sql"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"text/template"
)

//sizegen:root
type Entry struct {
	Server   *http.Server
	Request  *http.Request
	Template *template.Template
	Log      *slog.Logger
	DB       *sql.DB
	Reader   bufio.Reader
	Map      sync.Map
	Pool     sync.Pool
	Type     reflect.Type
	once     func() error
}
`
	if n := followAdvice(t, command{files: files}); n < 5 || n > 60 {
		t.Errorf("%d suggestions followed", n)
	} else {
		t.Logf("%d suggestions followed", n)
	}
}

// followAdvice returns the number of suggestions it applied.
func followAdvice(t *testing.T, c command) (followed int) {
	cfg, _ := config(t, c.args, c.files)
	const rounds = 3
	for range rounds + 1 {
		files, problems, err := Generate(cfg)
		if err != nil {
			t.Fatal(err)
		}
		refused := slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning })
		problems = slices.DeleteFunc(problems, func(p Problem) bool { return p.Try == "" })
		if len(problems) == 0 {
			if !refused {
				checkCompiles(t, cfg.Dir, files)
			}
			return followed
		}
		slices.Reverse(problems) // insertions move the lines below
		for _, p := range problems {
			follow(t, filepath.Join(cfg.Dir, p.Pos.Filename), p)
			followed++
		}
	}
	_, problems, err := Generate(cfg)
	t.Errorf("%d problems are left, %v:\n%v", len(problems), err, problems)
	return followed
}

// follow inserts the suggested directive into a file; one that belongs above its subject replaces a directive
// that was refused there.
func follow(t *testing.T, path string, p Problem) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	at := p.Pos.Line - 1
	switch refused := strings.Contains(lines[at], "//sizegen:") && p.What == strings.TrimSpace(lines[at][strings.Index(lines[at], "//"):]); {
	case refused:
		lines[at] = lines[at][:strings.Index(lines[at], "//")] + p.Try
	case p.named:
		lines = append(lines, "", p.Try)
	default:
		lines = slices.Insert(lines, at, p.Try)
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestGrouped joins warnings that differ in their field alone, and leaves others as they are.
func TestGrouped(t *testing.T) {
	warning := func(what, why string) Problem { return Problem{What: what, Why: why, Warning: true, key: what} }
	got := Grouped([]Problem{
		warning("A.a", "an any: see A.a"),
		{What: "C", Why: "refused"},
		warning("B.b", "an any: see B.b"), warning("D.d", "another"),
		{What: "C", Why: "refused"},
		warning("E.e", "an any: see E.e"), warning("F.f", "an any: see F.f"), warning("G.g", "an any: see G.g"),
	})
	var lines []string
	for _, p := range got {
		lines = append(lines, p.String())
	}
	want := "warning: A.a: an any: see A.a; so are B.b, E.e, F.f and 1 more\nC: refused\nwarning: D.d: another\nC: refused"
	if text := strings.Join(lines, "\n"); text != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
}
