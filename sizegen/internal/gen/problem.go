package gen

import (
	"cmp"
	"fmt"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// A Problem is a refusal or a warning of sizegen.
type Problem struct {
	Pos     token.Position // where the user can act
	What    string         // the field or type
	Why     string         // reason of the refusal or warning
	Try     string         // a directive that resolves it, "" if there is none
	Warning bool           // the files are generated nonetheless

	cause string // one problem per cause is reported
	node  string // the walk that found it, in the graph of walks
	key   string // the field or type that a directive would name
	named bool   // Try names the field or type, and may be anywhere in the package
}

// String formats the problem like a compiler. The directive after "try:" belongs on the line above Pos; one
// that names its field or type, anywhere in that package.
func (p Problem) String() string {
	var b strings.Builder
	if p.Pos.IsValid() {
		fmt.Fprintf(&b, "%s:%d:%d: ", p.Pos.Filename, p.Pos.Line, p.Pos.Column)
	}
	if p.Warning {
		b.WriteString("warning: ")
	}
	fmt.Fprintf(&b, "%s: %s", p.What, p.Why)
	if p.Try != "" {
		fmt.Fprintf(&b, "\n\ttry: %s", p.Try)
	}
	return b.String()
}

// problems collects one problem per cause: many holders lead to one refused field.
type problems struct {
	seen map[string]string // the reason, by cause
	list []Problem
}

// add adds p, unless there is one of the same cause already, and returns the reason that is reported.
func (ps *problems) add(p Problem) (why string) {
	if ps.seen == nil {
		ps.seen = make(map[string]string)
	}
	if p.cause == "" {
		p.cause = p.String()
	}
	if why, ok := ps.seen[p.cause]; ok {
		return why
	}
	ps.seen[p.cause] = p.Why
	ps.list = append(ps.list, p)
	return p.Why
}

// refused reports whether anything is more than a warning.
func (ps *problems) refused() bool {
	return slices.ContainsFunc(ps.list, func(p Problem) bool { return !p.Warning })
}

// sorted returns the problems by position, with file names relative to dir.
func (ps *problems) sorted(dir string) []Problem {
	out := slices.Clone(ps.list)
	for i := range out {
		if rel, err := filepath.Rel(dir, out[i].Pos.Filename); err == nil && filepath.IsLocal(rel) {
			out[i].Pos.Filename = filepath.ToSlash(rel)
		}
	}
	slices.SortStableFunc(out, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Pos.Filename, b.Pos.Filename), cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Column, b.Pos.Column), cmp.Compare(a.What, b.What), cmp.Compare(a.Why, b.Why))
	})
	return out
}

// Grouped returns the problems with one in place of all warnings that differ in their field or type alone.
func Grouped(all []Problem) []Problem {
	const named = 3 // besides the first
	var out []Problem
	first := make(map[string]int) // by reason: its place in out
	others := make(map[int][]string)
	for _, p := range all {
		key := strings.ReplaceAll(p.Why, p.key, "")
		at, ok := first[key]
		if p.Warning && p.Try == "" && ok {
			others[at] = append(others[at], p.What)
			continue
		}
		if p.Warning && p.Try == "" {
			first[key] = len(out)
		}
		out = append(out, p)
	}
	for at, what := range others {
		more := ""
		if len(what) > named {
			what, more = what[:named], fmt.Sprintf(" and %d more", len(what)-named)
		}
		out[at].Why += "; so are " + strings.Join(what, ", ") + more
	}
	return out
}
