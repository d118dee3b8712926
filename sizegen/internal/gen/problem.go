package gen

import (
	"cmp"
	"fmt"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// A Problem is one thing that sizegen refuses to guess about.
type Problem struct {
	Pos  token.Position // where the user can act
	What string         // the field or type
	Why  string         // what cannot be seen or done
	Try  string         // the directive or change that answers it
}

func (p Problem) String() string {
	var b strings.Builder
	if p.Pos.IsValid() {
		fmt.Fprintf(&b, "%s:%d: ", p.Pos.Filename, p.Pos.Line)
	}
	fmt.Fprintf(&b, "%s: %s", p.What, p.Why)
	if p.Try != "" {
		fmt.Fprintf(&b, "\n\ttry: %s", p.Try)
	}
	return b.String()
}

// problems collects without duplicates: many holders lead to one refused field.
type problems struct {
	seen map[string]bool
	list []Problem
}

func (ps *problems) add(p Problem) {
	if ps.seen == nil {
		ps.seen = make(map[string]bool)
	}
	if key := p.String(); !ps.seen[key] {
		ps.seen[key] = true
		ps.list = append(ps.list, p)
	}
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
			cmp.Compare(a.What, b.What), cmp.Compare(a.Why, b.Why))
	})
	return out
}
