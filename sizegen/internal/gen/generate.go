package gen

import (
	"fmt"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
)

// A Config says what to generate for.
type Config struct {
	Dir      string   // where the patterns are resolved
	Patterns []string // packages, as the go command writes them
	Roots    []string // path.Type, besides the types marked by //sizegen:root
}

// A File is one file that belongs beside the types.
type File struct {
	Path string
	Data []byte // nil when the file must not be there
}

// A generator works through all types that the roots reach, package by package.
type generator struct {
	fset        *token.FileSet
	all         map[string]*source
	targets     map[string]*source // those the patterns name: files are written there
	dirs        directives
	usedForeign map[token.Pos]bool
	problems    problems
	outputs     map[string]*output
	work        []func() // bodies still to be written
	instances   map[string][]*types.Named
	isMirror    map[*types.TypeName]bool // their types can be named, and are in no scope
}

// Generate returns what the files of sizegen have to be for the packages that cfg names, or
// the problems that keep it from doing so.
func Generate(cfg Config) ([]File, []Problem, error) {
	targets, all, err := load(cfg.Dir, cfg.Patterns)
	if err != nil {
		return nil, nil, err
	}
	g := &generator{
		fset:        targets[0].Fset,
		all:         all,
		targets:     make(map[string]*source),
		usedForeign: make(map[token.Pos]bool),
		outputs:     make(map[string]*output),
		isMirror:    make(map[*types.TypeName]bool),
	}
	g.dirs.at = make(map[token.Pos][]directive)
	g.dirs.foreign = make(map[string]map[string]directive)
	for _, p := range targets {
		g.targets[p.ImportPath] = p
	}
	for _, path := range g.modulePackages() {
		g.readDirectives(all[path])
	}
	roots, err := g.roots(cfg.Roots)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range roots {
		g.output(r.Obj().Pkg()).root(r)
	}
	for len(g.work) > 0 {
		next := g.work[0]
		g.work = g.work[1:]
		next()
	}
	for _, of := range g.dirs.foreign {
		for name, d := range of {
			if !g.usedForeign[d.pos] && g.outputs[d.pkg.ImportPath] != nil {
				g.problems.add(Problem{
					g.fset.Position(d.pos), "//sizegen:field " + name,
					"no walk of this package comes to that field", "check path.Type.Field, or remove the directive",
				})
			}
		}
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, nil, err
	}
	if len(g.problems.list) > 0 {
		return nil, g.problems.sorted(dir), nil
	}
	files, err := g.files(targets)
	return files, nil, err
}

// modulePackages returns the paths of the loaded packages of the main module, in order.
func (g *generator) modulePackages() []string {
	var out []string
	for path := range g.all {
		if g.inModule(path) {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

// roots returns the types to start from, in the order of their packages and names.
func (g *generator) roots(extra []string) ([]*types.Named, error) {
	asked := make(map[string]bool)
	for _, r := range extra {
		asked[r] = true
	}
	var out []*types.Named
	for _, path := range g.modulePackages() {
		p := g.all[path]
		if g.targets[path] == nil {
			continue
		}
		for _, n := range declaredTypes(p.Types) {
			name := path + "." + n.Obj().Name()
			_, marked := g.dirs.find(n.Obj().Pos(), dirRoot)
			if !marked && !asked[name] {
				continue
			}
			delete(asked, name)
			at := Problem{Pos: g.fset.Position(n.Obj().Pos()), What: n.Obj().Name()}
			switch {
			case n.TypeParams().Len() > 0:
				at.Why, at.Try = "a generic type has no size before it is instantiated", "make a struct that holds the instance the root"
			case types.IsInterface(n):
				at.Why, at.Try = "methods cannot be added to an interface", "make a struct that holds it the root"
			case isPointer(n):
				at.Why, at.Try = "methods cannot be added to a pointer type", "make what it points to the root"
			default:
				out = append(out, n)
				continue
			}
			g.problems.add(at)
		}
	}
	for r := range asked {
		return nil, fmt.Errorf("root %s: no such type in the packages given; a type of another module is walked by a struct here that holds it", r)
	}
	return out, nil
}

func isPointer(t types.Type) bool {
	_, ok := t.Underlying().(*types.Pointer)
	return ok
}

// output returns the file being written for p.
func (g *generator) output(p *types.Package) *output {
	o := g.outputs[p.Path()]
	if o == nil {
		o = newOutput(g, p)
		g.outputs[p.Path()] = o
	}
	return o
}

// files renders all outputs, and names the files of ours that have become needless.
func (g *generator) files(targets []*source) ([]File, error) {
	var out []File
	for _, p := range targets {
		if len(p.GoFiles) == 0 {
			continue
		}
		dir := p.Dir
		walks, test := File{Path: filepath.Join(dir, OutputFile)}, File{Path: filepath.Join(dir, TestFile)}
		if o := g.outputs[p.ImportPath]; o != nil {
			var err error
			if walks.Data, err = o.render(); err != nil {
				return nil, err
			}
			if test.Data, err = o.renderTest(); err != nil {
				return nil, err
			}
		}
		out = append(out, walks, test)
	}
	return out, nil
}

// position tells where something is, for a problem.
func (g *generator) position(pos token.Pos) token.Position { return g.fset.Position(pos) }

// short writes a type with package names, for people.
func short(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string { return p.Name() })
}

// title makes an identifier part of s: "query.BindVariable" becomes "QueryBindVariable".
func title(s string) string {
	var b strings.Builder
	up := true
	for _, r := range s {
		switch {
		case r >= '0' && r <= '9', r >= 'A' && r <= 'Z', r == '_':
			b.WriteRune(r)
			up = false
		case r >= 'a' && r <= 'z':
			if up {
				r -= 'a' - 'A'
			}
			b.WriteRune(r)
			up = false
		case r == '*':
			b.WriteString("PtrTo")
			up = true
		case r == '[':
			b.WriteString("Of")
			up = true
		default:
			up = true
		}
	}
	return b.String()
}
