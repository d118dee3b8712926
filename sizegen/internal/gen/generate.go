package gen

import (
	"fmt"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// A Config is the input of Generate.
type Config struct {
	Dir      string   // base of the patterns
	Patterns []string // packages, in the syntax of the go command
	Roots    []string // path.Type, in addition to the types marked by //sizegen:root
}

// A File is one file that belongs beside the types.
type File struct {
	Path string
	Data []byte // nil if the file must not exist
}

// A generator processes all types that the roots reach, package by package.
type generator struct {
	fset               *token.FileSet
	order              []*source // of all packages, those that are imported first
	all                map[string]*source
	targets            map[string]*source // packages named by the patterns: files are written there
	dirs               directives
	ownFiles           map[*token.File]bool // of the main module
	usedNamed          map[token.Pos]bool   // directives that name a field or type, and were used
	problems           problems
	outputs            map[string]*output
	work               []func() // bodies not yet generated
	instances          map[string][]*types.Named
	openInstances      map[*types.Named]bool                 // generic types with instances that are not found
	isMirror           map[*types.TypeName]bool              // their types can be named, and are in no scope
	originals          map[*types.Named]*types.Named         // mirror -> its original
	originalInterfaces map[*types.Interface]*types.Interface // of those without a name

	calls     graph          // of the functions of all files
	component map[string]int // of calls
	leads     []lead         // between types
	rootNodes []string
	rootTypes []*types.Named
	dynamic   map[string][]types.Type   // by interface or field: its dynamic types
	skipped   map[string]bool           // fields and types that are not walked
	shared    map[string]bool           // those of another owner
	values    map[types.Object][]string // functions of tests that return values of a root
	fields    map[string]int            // per type: fields with pointers
	trees     map[string]*explained
}

// Generate returns the files of sizegen for the packages that cfg names, and the problems. If a problem is
// not a warning, it returns no files.
func Generate(cfg Config) ([]File, []Problem, error) {
	g, err := prepare(cfg)
	if err != nil {
		return nil, nil, err
	}
	if err := g.walkRoots(cfg.Roots); err != nil {
		return nil, nil, err
	}
	g.unusedDirectives()
	g.merge()
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, nil, err
	}
	problems := g.problems.sorted(dir)
	if g.problems.refused() {
		return nil, problems, nil
	}
	files, err := g.files()
	if err == nil {
		err = g.typeCheck(cfg.Dir, files)
	}
	if err != nil {
		return nil, problems, err
	}
	return files, problems, nil
}

// prepare loads the packages and reads their directives.
func prepare(cfg Config) (*generator, error) {
	targets, order, all, err := load(cfg.Dir, cfg.Patterns)
	if err != nil {
		return nil, err
	}
	g := &generator{
		fset:               targets[0].Fset,
		order:              order,
		all:                all,
		targets:            make(map[string]*source),
		ownFiles:           make(map[*token.File]bool),
		usedNamed:          make(map[token.Pos]bool),
		outputs:            make(map[string]*output),
		isMirror:           make(map[*types.TypeName]bool),
		originals:          make(map[*types.Named]*types.Named),
		originalInterfaces: make(map[*types.Interface]*types.Interface),
		calls:              make(graph),
		fields:             make(map[string]int),
		trees:              make(map[string]*explained),
		dynamic:            make(map[string][]types.Type),
		skipped:            make(map[string]bool),
		shared:             make(map[string]bool),
		values:             make(map[types.Object][]string),
	}
	g.dirs.at = make(map[token.Pos][]directive)
	g.dirs.named = make(map[string][]directive)
	for _, p := range targets {
		g.targets[p.ImportPath] = p
	}
	for _, path := range g.modulePackages() {
		for _, file := range all[path].Syntax {
			f := g.fset.File(file.Package)
			// What cgo generates is elsewhere, except for positions of the files that it comes from.
			g.ownFiles[f] = filepath.Dir(g.fset.Position(file.Package).Filename) == all[path].Dir
		}
	}
	for _, path := range g.modulePackages() {
		g.readDirectives(all[path])
	}
	for _, p := range targets {
		g.readTests(p)
	}
	return g, nil
}

// walkRoots generates the walks of everything that the roots reach.
func (g *generator) walkRoots(extra []string) error {
	roots, err := g.roots(extra)
	if err != nil {
		return err
	}
	g.rootTypes = roots
	for _, r := range roots {
		g.output(r.Obj().Pkg()).root(r)
	}
	g.finishWork()
	return nil
}

func (g *generator) finishWork() {
	for len(g.work) > 0 {
		next := g.work[0]
		g.work = g.work[1:]
		next()
	}
}

// unusedDirectives warns of directives for a field or type that no walk reached: a recipe may name more than a root has.
func (g *generator) unusedDirectives() {
	for name, of := range g.dirs.named {
		for _, d := range of {
			if !g.usedNamed[d.pos] && g.outputs[d.pkg.ImportPath] != nil {
				g.problems.add(Problem{
					Pos: g.fset.Position(d.pos), What: "//sizegen:" + d.kind + " of " + name,
					Why: "no walk comes to it: check the name, or remove the directive", Warning: true,
				})
			}
		}
	}
}

// skip records a field or type that a directive excludes from walks.
func (g *generator) skip(key string, d directive) {
	if key == "" {
		return
	}
	g.skipped[key] = true
	if d.kind == dirShared {
		g.shared[key] = true
	}
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

// roots returns the root types, in the order of their packages and names.
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
				at.Why = "a generic type has no size before it is instantiated: make a struct that holds the instance the root"
			case types.IsInterface(n):
				at.Why = "methods cannot be added to an interface: make a struct that holds it the root"
			case isPointer(n):
				at.Why = "methods cannot be added to a pointer type: make what it points to the root"
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

// output returns the file being generated for p.
func (g *generator) output(p *types.Package) *output {
	o := g.outputs[p.Path()]
	if o == nil {
		o = newOutput(g, p)
		g.outputs[p.Path()] = o
	}
	return o
}

// files renders all outputs, and lists the generated files that have become superfluous.
func (g *generator) files() ([]File, error) {
	var out []File
	for _, path := range slices.Sorted(maps.Keys(g.targets)) {
		p := g.targets[path]
		if len(p.GoFiles)+len(p.CgoFiles) == 0 {
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

// position returns the position for a problem.
func (g *generator) position(pos token.Pos) token.Position { return g.fset.Position(pos) }

// short formats a type with package names, for people.
func short(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string { return p.Name() })
}

// title turns s into a part of an identifier: "query.BindVariable" becomes "QueryBindVariable".
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
