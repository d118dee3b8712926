package archtest

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// diagnostic matches a line of go build -gcflags=-m that reports a heap allocation.
var diagnostic = regexp.MustCompile(`^(?:\./)?(\S+\.go):(\d+):\d+: (moved to heap: .*|.* escapes to heap)$`)

// harmless matches diagnostics without a cost: a constant converted to an interface, as in panic("…"), which
// is in the binary's read-only data; and the growth of an append, which costs nothing if dst has room:
// allocation tables measure it.
var harmless = regexp.MustCompile(`^(?:"(?:[^"\\]|\\.)*"|\d+|[\w.]+\(\d+\)|append) escapes to heap$`)

// hotFunction matches a line of the escape ledger: "dir.Func" or "dir.(*Type).Method", and if values may escape their number and
// the reason.
var hotFunction = regexp.MustCompile(`^(((?:\S*/)?[^./\s]+)\.\S+)(?:\s+([1-9]\d*)\s+\S.*)?$`)

// checkEscapes compares the functions of the ledger with the compiler's diagnostics.
func checkEscapes(t *Tree) (findings []Finding, err error) {
	type hot struct{ line, allowed int }
	funcs := make(map[string]hot)
	patterns := []string{"-c", `go build -gcflags=-m "$@" 2>&1`, "sh"}
	for n, line := range t.ledger(escapeFile) {
		m := hotFunction.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("line %d of "+escapeFile+": want a function, or a function, a count and the reason", n)
		}
		if _, twice := funcs[m[1]]; twice {
			return nil, fmt.Errorf("line %d of "+escapeFile+": duplicate entry %s", n, m[1])
		}
		count, _ := strconv.Atoi(m[3]) // "": 0
		funcs[m[1]] = hot{n, count}
		if p := "./" + m[2]; !slices.Contains(patterns, p) {
			patterns = append(patterns, p)
		}
	}
	if len(funcs) == 0 {
		return nil, nil
	}
	// The compiler's diagnostics are on standard error, and come from the build cache the second time. The flag applies to the named
	// packages only. With -trimpath they have the module's path.
	out, err := t.command("sh", patterns...)
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	escapes := make(map[string][]string) // by file
	for line := range strings.Lines(string(out)) {
		if m := diagnostic.FindStringSubmatch(strings.TrimSpace(line)); m != nil && !harmless.MatchString(m[3]) {
			file := strings.TrimPrefix(m[1], t.Module+"/")
			if text := "line " + m[2] + ": " + m[3]; !slices.Contains(escapes[file], text) {
				escapes[file] = append(escapes[file], text)
			}
		}
	}
	for _, f := range t.parsed {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !f.linked {
				continue
			}
			name := path.Dir(f.name) + "." + receiver(fn) + fn.Name.Name
			h, ok := funcs[name]
			if !ok {
				continue
			}
			delete(funcs, name)
			found := slices.DeleteFunc(slices.Clone(escapes[f.name]), func(text string) bool {
				var line int
				_, _ = fmt.Sscanf(text, "line %d", &line)
				return line < f.line(fn.Pos()) || line > f.line(fn.End())
			})
			if len(found) > h.allowed {
				what := fmt.Sprintf("%d values escape, at most %d: %s", len(found), h.allowed, strings.Join(found, "; "))
				findings = append(findings, Finding{name, what, "keep the value in the struct that owns it, pass concrete types, or state the new count with its reason in " + escapeFile})
			} else if len(found) < h.allowed {
				findings = append(findings, Finding{fmt.Sprintf("%s:%d", escapeFile, h.line), fmt.Sprintf("%s lets %d values escape, not %d", name, len(found), h.allowed), "lower the count, so that it stays low"})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(funcs)) {
		findings = append(findings, Finding{fmt.Sprintf("%s:%d", escapeFile, funcs[name].line), "there is no function " + name, "write its new name here, or remove the line with the function"})
	}
	return findings, nil
}
