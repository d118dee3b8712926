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

// MeasurePrefix is the prefix of each line of its results.
const MeasurePrefix = "sizegen: "

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
	fmtName, rand, reflect, testing := o.use("fmt", "fmt"), o.use("math/rand/v2", "rand"), o.use("reflect", "reflect"), o.use("testing", "testing")
	heaptest := o.use(modulePath+"/heaptest", "heaptest")
	var b bytes.Buffer
	fmt.Fprintf(&b, "func %s(t *%s.T) {\n", MeasureTest, testing)
	fmt.Fprintf(&b, "types := map[string][]%s.Type{\n", reflect)
	for _, key := range slices.Sorted(maps.Keys(g.dynamic)) {
		fmt.Fprintf(&b, "%q: {", key)
		for _, d := range g.dynamic[key] {
			if g.nameable(pkg, d) {
				fmt.Fprintf(&b, "%s.TypeFor[%s](), ", reflect, o.typeName(d))
			}
		}
		b.WriteString("},\n")
	}
	b.WriteString("}\nskip := map[string]bool{\n")
	for _, key := range slices.Sorted(maps.Keys(g.skipped)) {
		fmt.Fprintf(&b, "%q: true,\n", key)
	}
	b.WriteString("}\n")
	for _, n := range roots {
		fmt.Fprintf(&b, measureRoot, o.typeName(n), heaptest, rand, o.heapsize("Walk"), fmtName, MeasurePrefix, short(n))
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

// measureRoot measures one root: type, heaptest, rand, Walk, fmt, prefix, name.
const measureRoot = `{
	build := func(i int) *%[1]s {
		v := new(%[1]s)
		f := %[2]s.Filler{Rand: %[3]s.New(%[3]s.NewPCG(uint64(i), 1)), Types: types, Skip: skip}
		f.Fill(v)
		return v
	}
	var n int
	size := func(values []*%[1]s) (sum int64, err error) {
		var w %[4]s
		for _, v := range values {
			size, err := v.CachedSize(&w)
			if err != nil {
				return 0, err
			}
			sum += size
		}
		n = len(values)
		return sum, nil
	}
	r, err := %[2]s.Compare(2000, build, size)
	if err != nil {
		t.Fatal("%[7]s: ", err)
	}
	%[5]s.Printf("%[6]s%[7]s: %%d values, %%d bytes accounted, %%d real, %%+.2f %%%%\n", n, r.Accounted, r.Heap, r.Off())
}
`
