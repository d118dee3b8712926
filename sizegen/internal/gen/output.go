package gen

import (
	"bytes"
	"cmp"
	"fmt"
	"go/format"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	modulePath   = "github.com/taredb/tare/sizegen"
	heapsizePath = modulePath + "/heapsize"
)

// An output is the file being generated for one package.
type output struct {
	g       *generator
	pkg     *types.Package
	imports map[string]string // path -> name in the file
	taken   map[string]bool   // names in use: those of the package, and generated ones

	walks   typeMap[string] // type -> name of the function that walks the parts of a *type
	parts   map[*types.Named]bool
	dynamic map[string]bool       // dynamic types that have their method
	mirrors typeMap[*types.Named] // type of another package -> its mirror here
	guards  []guard

	decls []decl
}

// A decl is a piece of the file. Pieces are sorted by kind and name.
type decl struct {
	kind int
	name string
	text string
}

const (
	declMirror = iota
	declMethod
	declWalk
)

func newOutput(g *generator, pkg *types.Package) *output {
	o := &output{
		g: g, pkg: pkg,
		imports: make(map[string]string),
		taken:   make(map[string]bool),
		parts:   make(map[*types.Named]bool),
		dynamic: make(map[string]bool),
	}
	for _, name := range []string{"any", "cap", "error", "false", "int64", "nil", "string", "true", "uintptr"} {
		if obj := pkg.Scope().Lookup(name); obj != nil {
			g.problems.add(Problem{Pos: g.position(obj.Pos()), What: name, Why: "generated code uses the predeclared " + name + ": rename it"})
		}
	}
	for _, name := range []string{"w", "p", "m", "c", "v", "box", "self", "size", "err"} {
		o.taken[name] = true // variables of the generated functions
	}
	for _, name := range pkg.Scope().Names() {
		o.taken[name] = true
	}
	for _, name := range types.Universe.Names() {
		o.taken[name] = true
	}
	return o
}

// unique returns name, or the first of name_2, name_3, … that the package does not use.
func (o *output) unique(name string) string {
	out := name
	for i := 2; o.taken[out]; i++ {
		out = name + "_" + strconv.Itoa(i)
	}
	o.taken[out] = true
	return out
}

// node returns the name of a function of the file in the graph of calls.
func (o *output) node(name string) string { return o.pkg.Path() + "." + name }

// use imports a package and returns its name in the file.
func (o *output) use(importPath, name string) string {
	if n, ok := o.imports[importPath]; ok {
		return n
	}
	if token.IsIdentifier(name) && len(name) > 1 && strings.Trim(name[1:], "0123456789") == "" {
		name = "pkg" + name // emitters use v1 and the like for their variables
	}
	n := o.unique(name)
	o.imports[importPath] = n
	return n
}

func (o *output) heapsize(name string) string { return o.use(heapsizePath, "heapsize") + "." + name }
func (o *output) unsafe(name string) string   { return o.use("unsafe", "unsafe") + "." + name }

// typeName formats t for the file's source.
func (o *output) typeName(t types.Type) string {
	return types.TypeString(o.g.spelled(o.pkg, t), func(p *types.Package) string {
		if p == o.pkg {
			return ""
		}
		return o.use(p.Path(), p.Name())
	})
}

func (o *output) declare(kind int, name, text string) {
	o.decls = append(o.decls, decl{kind, name, text})
}

// render returns the finished file, nil if it is empty.
func (o *output) render() ([]byte, error) {
	if len(o.decls) == 0 {
		return nil, nil
	}
	o.g.resolveCalls(o)
	slices.SortStableFunc(o.decls, func(a, b decl) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n\npackage %s\n\n", header, o.pkg.Name())
	o.writeImports(&b)
	if slices.ContainsFunc(o.guards, func(m guard) bool { return m.original != "" }) {
		b.WriteString("// A mirror that has not the size of its type does not compile; generate anew then.\nvar (\n")
		for _, m := range o.guards {
			if m.original != "" {
				fmt.Fprintf(&b, "_ = [1]struct{}{}[%s(*new(%s))-%s(*new(%s))]\n",
					o.unsafe("Sizeof"), m.original, o.unsafe("Sizeof"), m.mirror)
			}
		}
		b.WriteString(")\n\n")
	}
	for _, d := range o.decls {
		b.WriteString(d.text + "\n")
	}
	out, err := format.Source(b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("BUG: format the output for %s: %w\n%s", o.pkg.Path(), err, b.Bytes())
	}
	return out, nil
}

// writeImports writes the import block, the standard library first.
func (o *output) writeImports(b *bytes.Buffer) {
	write := func(standard bool) {
		for _, p := range slices.Sorted(maps.Keys(o.imports)) {
			if first, _, _ := strings.Cut(p, "/"); strings.Contains(first, ".") == standard {
				continue
			}
			if name := o.imports[p]; name != path.Base(p) {
				fmt.Fprintf(b, "%s %q\n", name, p)
			} else {
				fmt.Fprintf(b, "%q\n", p)
			}
		}
	}
	b.WriteString("import (\n")
	write(true)
	b.WriteString("\n")
	write(false)
	b.WriteString(")\n\n")
}
