package gen

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
)

// typeCheck checks the generated files within their packages, before they are written. Other functions of these packages
// are checked without their bodies, and only errors in the generated files count.
func (g *generator) typeCheck(dir string, files []File) error {
	generated := make(map[string][]File) // by directory
	for _, f := range files {
		if f.Data != nil {
			generated[filepath.Dir(f.Path)] = append(generated[filepath.Dir(f.Path)], f)
		}
	}
	if len(generated) == 0 {
		return nil
	}
	g.loadHeapsize(dir)
	again := make(map[string]*types.Package)
	for _, p := range g.order {
		own := generated[p.Dir]
		if g.targets[p.ImportPath] == nil {
			own = nil
		}
		if len(own) == 0 && (!p.ofMain() || !slices.ContainsFunc(p.Deps, func(d string) bool { return again[d] != nil })) {
			continue
		}
		var err error
		if again[p.ImportPath], err = g.checkAgain(p, own, again); err != nil {
			return err
		}
	}
	return nil
}

// loadHeapsize loads the package that generated code imports where no earlier generated code has imported it. If the
// module does not require it yet, its names are not checked.
func (g *generator) loadHeapsize(dir string) {
	if g.all[heapsizePath] != nil {
		return
	}
	packages, err := list(dir, []string{heapsizePath})
	if err != nil {
		return
	}
	for _, l := range packages {
		if l.Error == nil && g.all[l.ImportPath] == nil {
			p := &source{listed: l, Fset: g.fset}
			if p.parse() == nil {
				p.check(g.all)
				g.all[l.ImportPath] = p
			}
		}
	}
}

// checkAgain checks a package with its generated files; again has those checked before.
func (g *generator) checkAgain(p *source, generated []File, again map[string]*types.Package) (*types.Package, error) {
	var syntax []*ast.File
	for _, file := range p.Syntax {
		syntax = append(syntax, withoutBodies(file))
	}
	ours := make(map[*token.File]string)
	for _, f := range generated {
		file, err := parser.ParseFile(g.fset, f.Path, f.Data, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("BUG: parse what was generated: %w", err)
		}
		ours[g.fset.File(file.Package)] = filepath.Base(f.Path)
		syntax = append(syntax, file)
	}
	var first error
	cfg := p.config(again, g.all)
	cfg.IgnoreFuncBodies = false
	cfg.Error = func(err error) {
		at, ok := err.(types.Error) //nolint:errorlint // as documented
		name := ours[g.fset.File(at.Pos)]
		if ok && first == nil && name != "" && !strings.HasPrefix(at.Msg, "could not import ") {
			first = fmt.Errorf("BUG: the code generated for %s does not compile, and no file is written: %s:%d: %s: please report it", p.ImportPath, name, g.fset.Position(at.Pos).Line, at.Msg)
		}
	}
	pkg, _ := cfg.Check(p.ImportPath, g.fset, syntax, nil) // cfg.Error has received its error
	return pkg, first
}

// withoutBodies returns a copy of a file that only declares its functions.
func withoutBodies(file *ast.File) *ast.File {
	c := *file
	c.Decls = slices.Clone(file.Decls)
	for i, d := range c.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			declared := *f
			declared.Body = nil
			c.Decls[i] = &declared
		}
	}
	return &c
}

// config returns the configuration for checking p; packages in again replace those in all.
func (p *source) config(again map[string]*types.Package, all map[string]*source) types.Config {
	cfg := types.Config{
		IgnoreFuncBodies: !p.ofMain(),
		FakeImportC:      p.cgoFailed(),
		Error:            func(error) {},
		Sizes:            types.SizesFor("gc", build.Default.GOARCH),
		Importer: importer(func(path string) (*types.Package, error) {
			if mapped, ok := p.ImportMap[path]; ok {
				path = mapped
			}
			if pkg := again[path]; pkg != nil {
				return pkg, nil
			}
			if imported := all[path]; imported != nil {
				return imported.Types, nil
			}
			return nil, fmt.Errorf("package %s is not listed", path)
		}),
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		cfg.GoVersion = "go" + p.Module.GoVersion
	}
	return cfg
}
