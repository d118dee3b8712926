package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A hotFunc is a line of the escape ledger.
type hotFunc struct {
	name    string // "dir.Func" or "dir.(*Type).Method"
	allowed int    // number of permitted escapes
	line    int    // in the ledger
}

// readLedger parses lines of "name", or "name count reason" if escapes are accepted.
func readLedger(text string) ([]hotFunc, error) {
	var funcs []hotFunc
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		f := hotFunc{name: words[0], line: n}
		if len(words) > 1 {
			count, err := strconv.Atoi(words[1])
			if err != nil || count < 1 || len(words) < 3 {
				return nil, fmt.Errorf("line %d of the ledger: want a function, or a function, a count and the reason", n)
			}
			f.allowed = count
		}
		if slices.ContainsFunc(funcs, func(o hotFunc) bool { return o.name == f.name }) {
			return nil, fmt.Errorf("line %d of the ledger: duplicate entry %s", n, f.name)
		}
		funcs = append(funcs, f)
	}
	return funcs, nil
}

// dir is the package's directory, relative to the module.
func (f hotFunc) dir() string {
	slash := strings.LastIndexByte(f.name, '/')
	dot := strings.IndexByte(f.name[slash+1:], '.')
	if dot < 0 {
		return f.name
	}
	return f.name[:slash+1+dot]
}

// diagnostic matches a line of go build -gcflags=-m that reports a heap allocation.
var diagnostic = regexp.MustCompile(`^(\S+\.go):(\d+):(\d+): (moved to heap: .*|.* escapes to heap)$`)

// harmless matches diagnostics without a cost: a constant converted to an interface, as in panic("…"), which
// is in the binary's read-only data; and the growth of an append, which costs nothing if dst has room:
// allocation tables measure it.
var harmless = regexp.MustCompile(`^(?:"(?:[^"\\]|\\.)*"|\d+|[\w.]+\(\d+\)|append) escapes to heap$`)

// A span is the lines of one function.
type span struct {
	name     string
	from, to int
}

// Escapes compares the functions of a ledger with the compiler's diagnostics.
func Escapes(t *Tree, ledgerName, ledger string) ([]Finding, error) {
	funcs, err := readLedger(ledger)
	if err != nil {
		return nil, err
	}
	var patterns []string
	for _, f := range funcs {
		if p := "./" + f.dir(); !slices.Contains(patterns, p) {
			patterns = append(patterns, p)
		}
	}
	if len(patterns) == 0 {
		return nil, nil
	}
	escapes, err := t.escapes(patterns)
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for _, f := range funcs {
		found, ok := escapes[f.name]
		where := fmt.Sprintf("%s:%d", ledgerName, f.line)
		switch {
		case !ok:
			findings = append(findings, Finding{where, "there is no function " + f.name, "write its new name here, or remove the line with the function"})
		case len(found) > f.allowed:
			findings = append(findings, Finding{
				f.name, fmt.Sprintf("%d values escape, at most %d: %s", len(found), f.allowed, strings.Join(found, "; ")),
				"keep the value in the struct that owns it, pass concrete types, or state the new count with its reason in " + ledgerName,
			})
		case len(found) < f.allowed:
			findings = append(findings, Finding{where, fmt.Sprintf("%s lets %d values escape, not %d", f.name, len(found), f.allowed), "lower the count, so that it stays low"})
		}
	}
	return findings, nil
}

// escapes compiles packages and returns the escaping values of each of their functions. The flag applies to
// the named packages only: their imports come from the build cache, and so do their diagnostics the second
// time.
func (t *Tree) escapes(patterns []string) (map[string][]string, error) {
	packages, err := t.list(patterns...)
	if err != nil {
		return nil, err
	}
	byFile := make(map[string][]span)
	escapes := make(map[string][]string)
	for _, p := range packages {
		dir, _ := t.short(p.ImportPath)
		for _, name := range p.GoFiles {
			spans, err := functions(filepath.Join(p.Dir, name), dir)
			if err != nil {
				return nil, err
			}
			byFile[dir+"/"+name] = spans
			for _, s := range spans {
				escapes[s.name] = nil
			}
		}
	}
	// The compiler's diagnostics are on standard error. With -trimpath they have the module's path.
	out, err := t.command("sh", append([]string{"-c", `go build -gcflags=-m "$@" 2>&1`, "sh"}, patterns...)...)
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		m := diagnostic.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || harmless.MatchString(m[4]) {
			continue
		}
		n, err := strconv.Atoi(m[2])
		if err != nil {
			return nil, fmt.Errorf("read the compiler's line number: %w", err)
		}
		text := fmt.Sprintf("line %d: %s", n, m[4])
		for _, s := range byFile[strings.TrimPrefix(strings.TrimPrefix(m[1], "./"), t.Module+"/")] {
			if s.from <= n && n <= s.to && !slices.Contains(escapes[s.name], text) {
				escapes[s.name] = append(escapes[s.name], text)
			}
		}
	}
	return escapes, nil
}

// functions returns the functions and methods of a file.
func functions(file, dir string) ([]span, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var spans []span
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		spans = append(spans, span{
			name: dir + "." + receiver(f) + f.Name.Name,
			from: fset.Position(f.Pos()).Line, to: fset.Position(f.End()).Line,
		})
	}
	return spans, nil
}

// receiver returns "(*Type)." or "Type." for a method, "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	typ, star := f.Recv.List[0].Type, false
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ, star = x.X, true
		case *ast.IndexExpr: // a generic type
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			if star {
				return "(*" + x.Name + ")."
			}
			return x.Name + "."
		default:
			panic(fmt.Sprintf("BUG: receiver of type %T", typ))
		}
	}
}
