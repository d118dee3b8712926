package gen

import (
	"bytes"
	"fmt"
	"go/format"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
)

// MeasureTest is the name of the test that [Measure] generates.
const MeasureTest = "TestSizegenMeasure"

// The prefixes of the lines of its results, and of its errors.
const (
	MeasurePrefix = "sizegen: "
	MeasureError  = "sizegen error:"
)

// Measure returns the files of Generate and a test for each package with roots, which compares the sizes of
// generated values with the heap, and the paths of these packages.
func Measure(cfg Config) (files []File, packages []string, problems []Problem, err error) {
	g, err := prepare(cfg)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := g.walkRoots(cfg.Roots); err != nil {
		return nil, nil, nil, err
	}
	g.unusedDirectives()
	g.merge()
	problems = g.problems.sorted(cfg.Dir)
	if g.problems.refused() {
		return nil, nil, problems, nil
	}
	if files, err = g.files(); err == nil {
		err = g.typeCheck(cfg.Dir, files)
	}
	if err != nil {
		return nil, nil, problems, err
	}
	files = slices.DeleteFunc(files, func(f File) bool { return f.Data == nil })
	for path, o := range g.outputs {
		roots := slices.DeleteFunc(slices.Clone(g.rootTypes), func(n *types.Named) bool { return n.Obj().Pkg() != o.pkg })
		if len(roots) == 0 {
			continue
		}
		data, err := g.measureTest(o.pkg, roots)
		if err != nil {
			return nil, nil, nil, err
		}
		files = append(files, File{Path: filepath.Join(g.all[path].Dir, "zz_sizegen_measure_test.go"), Data: data})
		packages = append(packages, path)
	}
	slices.Sort(packages)
	return files, packages, problems, nil
}

// measureTest generates the test for the roots of a package.
func (g *generator) measureTest(pkg *types.Package, roots []*types.Named) ([]byte, error) {
	o := newOutput(g, pkg)
	reflect, testing := o.use("reflect", "reflect"), o.use("testing", "testing")
	heaptest := o.use(modulePath+"/heaptest", "heaptest")
	var b bytes.Buffer
	fmt.Fprintf(&b, "func %s(t *%s.T) {\nplan := %s.Plan{\nTypes: map[string][]%s.Type{\n", MeasureTest, testing, heaptest, reflect)
	for _, key := range slices.Sorted(maps.Keys(g.dynamic)) {
		fmt.Fprintf(&b, "%q: {", key)
		for _, d := range g.dynamic[key] {
			if g.nameable(pkg, d) {
				fmt.Fprintf(&b, "%s.TypeFor[%s](), ", reflect, o.typeName(d))
			}
		}
		b.WriteString("},\n")
	}
	b.WriteString("},\nSkip: map[string]bool{\n")
	for _, key := range slices.Sorted(maps.Keys(g.skipped)) {
		fmt.Fprintf(&b, "%q: true,\n", key)
	}
	b.WriteString("},\nShared: map[string]bool{\n")
	for _, key := range slices.Sorted(maps.Keys(g.shared)) {
		fmt.Fprintf(&b, "%q: true,\n", key)
	}
	b.WriteString("},\n}\nresult := func(line string, err error) {\nt.Helper()\n")
	fmt.Fprintf(&b, "if line != \"\" {\n%s.Println(%q + line)\n}\nif err != nil {\nt.Error(%q, err)\n}\n}\n", o.use("fmt", "fmt"), MeasurePrefix, MeasureError)
	for _, n := range roots {
		fmt.Fprintf(&b, "plan.Name = %q\nresult(%s.Random[%s](plan))\n", short(n), heaptest, o.typeName(n))
		for _, f := range g.values[n.Obj()] {
			fmt.Fprintf(&b, "result(%s.Real[%s](plan, %q, %s))\n", heaptest, o.typeName(n), f, f)
		}
	}
	b.WriteString("}\n")
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s\n\npackage %s\n\n", header, pkg.Name())
	o.writeImports(&out)
	out.Write(b.Bytes())
	src, err := format.Source(out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("BUG: format the measuring test of %s: %w\n%s", pkg.Path(), err, out.Bytes())
	}
	return src, nil
}
