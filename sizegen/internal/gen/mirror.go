package gen

import (
	"bytes"
	"fmt"
	"go/format"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
)

// A guard is a mirror whose layout must match its original.
type guard struct {
	original string // in the form of this package's source; "" if it cannot be written
	mirror   string
	imports  map[string]string // imports of original: path -> name
}

// needsMirror reports whether parts of n are inaccessible to this package's source.
func (o *output) needsMirror(n *types.Named) bool {
	s, ok := n.Underlying().(*types.Struct)
	if !ok {
		return !types.IsInterface(n) && !o.g.nameable(o.pkg, n.Underlying())
	}
	for f := range s.Fields() {
		if !hasPointers(f.Type()) || f.Name() == "_" {
			continue
		}
		reached := f.Exported() || f.Pkg() == o.pkg
		if d, ok := o.g.fieldDirective(o.pkg, n, f, dirShared, dirSize, dirOpaque); ok {
			if d.kind == dirShared || reached {
				continue
			}
			return true // whether it is nil matters
		}
		if of := named(f.Type()); of != nil && holdsNothing(of) {
			continue
		}
		if !reached || !o.g.nameable(o.pkg, f.Type()) {
			return true
		}
	}
	return false
}

// mirror returns a type of this package with the memory layout of n; from is the site that led to it.
func (o *output) mirror(n *types.Named, from site) *types.Named {
	if m, ok := o.mirrors.at(n); ok {
		return m
	}
	name := o.unique("mirror" + title(types.TypeString(n, (*types.Package).Name)))
	obj := types.NewTypeName(n.Obj().Pos(), o.pkg, name, nil)
	m := types.NewNamed(obj, nil, nil)
	o.g.isMirror[obj] = true
	o.mirrors.set(n, m)
	o.g.originals[m] = n
	m.SetUnderlying(o.mirrorType(n.Underlying(), n, typeKey(n), from))
	g := guard{mirror: name}
	if o.g.nameable(o.pkg, n) {
		g.imports = make(map[string]string)
		g.original = types.TypeString(o.g.spelled(o.pkg, n), func(p *types.Package) string {
			if p == o.pkg {
				return ""
			}
			g.imports[p.Path()] = o.use(p.Path(), p.Name())
			return g.imports[p.Path()]
		})
	}
	o.guards = append(o.guards, g)
	slices.SortFunc(o.guards, func(a, b guard) int { return strings.Compare(a.mirror, b.mirror) })
	o.declare(declMirror, name, fmt.Sprintf("// %s has the layout of %s.\ntype %s %s\n", name, short(n), name, o.typeName(m.Underlying())))
	return m
}

// mirrorType rewrites t, a part of owner that directives name by key, without names that are inaccessible to
// this package.
func (o *output) mirrorType(t types.Type, owner *types.Named, key string, from site) types.Type {
	if _, ok := t.(*types.Struct); !ok && o.g.nameable(o.pkg, t) {
		return t
	}
	of := func(t types.Type) types.Type { return o.mirrorType(t, owner, key, from) }
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		if qualified(t) == "sync/atomic.Pointer" {
			if inst, err := types.Instantiate(nil, t.Origin(), []types.Type{of(t.TypeArgs().At(0))}, false); err == nil {
				return inst
			}
		}
		return o.mirror(t, from)
	case *types.Pointer:
		return types.NewPointer(of(t.Elem()))
	case *types.Slice:
		return types.NewSlice(of(t.Elem()))
	case *types.Array:
		return types.NewArray(of(t.Elem()), t.Len())
	case *types.Chan:
		return types.NewChan(t.Dir(), of(t.Elem()))
	case *types.Signature:
		return types.NewSignatureType(nil, nil, nil, nil, nil, false)
	case *types.Interface:
		m := mirrorInterface(o.pkg, t)
		o.g.originalInterfaces[m.Underlying().(*types.Interface)] = t
		return m
	case *types.Struct:
		fields := make([]*types.Var, 0, t.NumFields())
		for f := range t.Fields() {
			ft := o.opaqueType(f.Type())
			if !o.untouched(owner, f) {
				ft = o.mirrorType(f.Type(), owner, typeKey(owner)+"."+f.Name(), from)
			}
			fields = append(fields, types.NewField(f.Origin().Pos(), o.pkg, f.Name(), ft, false))
		}
		return types.NewStruct(fields, nil)
	case *types.Map:
		if o.g.nameable(o.pkg, t.Key()) {
			// Iterating does not depend on the name of the element type.
			return types.NewMap(t.Key(), of(t.Elem()))
		}
	}
	o.g.problems.add(Problem{
		Pos: o.g.position(from.at), What: from.what + ": " + key,
		Why: fmt.Sprintf("it holds a %s, which cannot be named in package %s", short(t), o.pkg.Name()),
		Try: namedStatement(key, "shared it belongs to another owner"), named: true,
		cause: key, key: key, node: nodeOf(owner),
	})
	return types.Typ[types.UnsafePointer]
}

// mirrorInterface returns an interface of two words like those of t. Its method table differs, so values are
// read as any.
func mirrorInterface(pkg *types.Package, t *types.Interface) types.Type {
	if t.Empty() {
		return emptyInterface
	}
	none := types.NewSignatureType(nil, nil, nil, nil, nil, false)
	return types.NewInterfaceType([]*types.Func{types.NewFunc(token.NoPos, pkg, "mirrored", none)}, nil).Complete()
}

// untouched reports whether field f is not walked: its type does not matter then.
func (o *output) untouched(owner *types.Named, f *types.Var) bool {
	if !hasPointers(f.Type()) {
		return true
	}
	if _, ok := o.g.fieldDirective(o.pkg, owner, f, dirShared, dirSize, dirOpaque); ok {
		return true
	}
	_, ok := o.g.sharedPointee(o.pkg, f.Type())
	return ok
}

// sharedPointee returns the directive by which the target of a t belongs to another owner.
func (g *generator) sharedPointee(from *types.Package, t types.Type) (directive, bool) {
	if t == nil {
		return directive{}, false
	}
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		if n := named(p.Elem()); n != nil {
			return g.typeDirective(from, n, dirShared)
		}
	}
	return directive{}, false
}

// opaqueType returns t if it can be named, and otherwise a type with its memory layout, in which one word, or
// an array of words, replaces each type with pointers.
func (o *output) opaqueType(t types.Type) types.Type {
	word := types.Typ[types.UnsafePointer]
	if o.g.nameable(o.pkg, t) {
		return t
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return types.Typ[u.Kind()]
	case *types.Interface:
		return types.NewArray(word, 2)
	case *types.Slice:
		return types.NewArray(word, 3)
	case *types.Array:
		return types.NewArray(o.opaqueType(u.Elem()), u.Len())
	case *types.Struct:
		fields := make([]*types.Var, 0, u.NumFields())
		for f := range u.Fields() {
			fields = append(fields, types.NewField(f.Origin().Pos(), o.pkg, f.Name(), o.opaqueType(f.Type()), false))
		}
		return types.NewStruct(fields, nil)
	}
	return word
}

// renderTest returns the test that compares the mirrors with their originals by reflection, nil if there are
// no mirrors.
func (o *output) renderTest() ([]byte, error) {
	if len(o.guards) == 0 {
		return nil, nil
	}
	imports := map[string]string{}
	var pairs strings.Builder
	for _, m := range o.guards {
		if m.original == "" {
			continue // reached from one that can be named
		}
		fmt.Fprintf(&pairs, "{reflect.TypeFor[%s](), reflect.TypeFor[%s]()},\n", m.original, m.mirror)
		maps.Copy(imports, m.imports)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n\npackage %s\n\n", header, o.pkg.Name())
	t := &output{imports: imports}
	t.imports["reflect"], t.imports["testing"] = "reflect", "testing"
	t.writeImports(&b)
	fmt.Fprintf(&b, mirrorTest, pairs.String())
	out, err := format.Source(b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("BUG: format the test for %s: %w", o.pkg.Path(), err)
	}
	return out, nil
}

// mirrorTest is a test without dependencies, because it is generated into other modules' packages.
const mirrorTest = `// TestCachedSizeMirrors fails when a type of another package no longer has the fields that
// its mirror in cached_size.go has; sizegen must be run again then.
func TestCachedSizeMirrors(t *testing.T) {
	type pair struct{ original, mirror reflect.Type }
	work := []pair{
%s}
	seen := make(map[pair]bool)
	for len(work) > 0 {
		p := work[0]
		work = work[1:]
		if seen[p] || p.original == p.mirror {
			continue
		}
		seen[p] = true
		words := p.mirror
		if words.Kind() == reflect.Array {
			words = words.Elem()
		}
		if words.Kind() == reflect.UnsafePointer && p.original.Size() == p.mirror.Size() {
			continue // not looked into
		}
		if p.original.Kind() != p.mirror.Kind() || p.original.Size() != p.mirror.Size() {
			t.Errorf("%%v is a %%v of %%d bytes, its mirror %%v a %%v of %%d",
				p.original, p.original.Kind(), p.original.Size(), p.mirror, p.mirror.Kind(), p.mirror.Size())
			continue
		}
		switch p.original.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
			work = append(work, pair{p.original.Elem(), p.mirror.Elem()})
		case reflect.Map:
			work = append(work, pair{p.original.Key(), p.mirror.Key()}, pair{p.original.Elem(), p.mirror.Elem()})
		case reflect.Struct:
			if p.original.NumField() != p.mirror.NumField() {
				t.Errorf("%%v has %%d fields, its mirror %%d", p.original, p.original.NumField(), p.mirror.NumField())
				continue
			}
			for i := range p.original.NumField() {
				a, b := p.original.Field(i), p.mirror.Field(i)
				if a.Name != b.Name || a.Offset != b.Offset {
					t.Errorf("%%v.%%s at %%d is %%s at %%d in the mirror", p.original, a.Name, a.Offset, b.Name, b.Offset)
				}
				work = append(work, pair{a.Type, b.Type})
			}
		}
	}
}
`
