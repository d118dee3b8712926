package gen

import (
	"bytes"
	"fmt"
	"go/format"
	"go/types"
	"maps"
	"slices"
	"strings"
)

// A guard is a mirror that must stay true to its original.
type guard struct {
	original string // as this package writes it; "" when it cannot
	mirror   string
	imports  map[string]string // what original needs: path -> name
}

// needsMirror reports whether parts of n, a type of another package, are out of reach for
// this one's source.
func (o *output) needsMirror(n *types.Named) bool {
	s, ok := n.Underlying().(*types.Struct)
	if !ok {
		return !types.IsInterface(n) && !o.g.nameable(o.pkg, n.Underlying())
	}
	for f := range s.Fields() {
		if !hasPointers(f.Type()) || f.Name() == "_" {
			continue
		}
		if _, ok := o.g.fieldDirective(o.pkg, n, f); ok {
			continue
		}
		if of := named(f.Type()); of != nil && holdsNothing(of) {
			continue
		}
		if !f.Exported() || !o.g.nameable(o.pkg, f.Type()) {
			return true
		}
	}
	return false
}

// mirror returns a type of this package with the memory layout of n.
func (o *output) mirror(n *types.Named) *types.Named {
	if m, ok := o.mirrors.at(n); ok {
		return m
	}
	name := o.unique("mirror" + title(types.TypeString(n, (*types.Package).Name)))
	obj := types.NewTypeName(n.Obj().Pos(), o.pkg, name, nil)
	m := types.NewNamed(obj, nil, nil)
	o.g.isMirror[obj] = true
	o.mirrors.set(n, m)
	o.mirrored[m] = n
	m.SetUnderlying(o.mirrorType(n.Underlying(), n))
	g := guard{mirror: name}
	if o.g.nameable(o.pkg, n) {
		g.imports = make(map[string]string)
		g.original = types.TypeString(n, func(p *types.Package) string {
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

// mirrorType rewrites t without what this package cannot name.
func (o *output) mirrorType(t types.Type, owner *types.Named) types.Type {
	if _, ok := t.(*types.Struct); !ok && o.g.nameable(o.pkg, t) {
		return t
	}
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		if u, ok := t.Underlying().(*types.Interface); ok {
			return o.mirrorType(u, owner)
		}
		return o.mirror(t)
	case *types.Pointer:
		return types.NewPointer(o.mirrorType(t.Elem(), owner))
	case *types.Slice:
		return types.NewSlice(o.mirrorType(t.Elem(), owner))
	case *types.Array:
		return types.NewArray(o.mirrorType(t.Elem(), owner), t.Len())
	case *types.Chan:
		return types.NewChan(t.Dir(), o.mirrorType(t.Elem(), owner))
	case *types.Signature:
		return types.NewSignatureType(nil, nil, nil, nil, nil, false)
	case *types.Struct:
		fields := make([]*types.Var, 0, t.NumFields())
		for f := range t.Fields() {
			ft := types.Type(types.Typ[types.UnsafePointer])
			if !o.opaque(owner, f) {
				ft = o.mirrorType(f.Type(), owner)
			}
			fields = append(fields, types.NewField(f.Origin().Pos(), o.pkg, f.Name(), ft, false))
		}
		return types.NewStruct(fields, nil)
	case *types.Map:
		if o.g.nameable(o.pkg, t.Key()) {
			// Iterating does not depend on what the elements are called.
			return types.NewMap(t.Key(), o.mirrorType(t.Elem(), owner))
		}
	}
	o.g.problems.add(Problem{
		o.g.position(owner.Obj().Pos()), short(owner),
		fmt.Sprintf("it holds a %s, which cannot be named in package %s", short(t), o.pkg.Name()),
		"//sizegen:field " + fieldKey(owner, "Field") + " size N reason",
	})
	return types.Typ[types.UnsafePointer]
}

// opaque reports whether field f, one word, is not looked into by directive; its type is of
// no interest then.
func (o *output) opaque(owner *types.Named, f *types.Var) bool {
	if _, ok := o.g.fieldDirective(o.pkg, owner, f); !ok {
		return false
	}
	return pointerShaped(f.Type())
}

func fieldKey(n *types.Named, field string) string {
	return n.Obj().Pkg().Path() + "." + n.Obj().Name() + "." + field
}

// renderTest returns the test that compares the mirrors with their originals by reflection,
// nil when there are no mirrors.
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

// mirrorTest is a test without dependencies: it is written into other people's packages.
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
		if p.mirror.Kind() == reflect.UnsafePointer && p.original.Size() == p.mirror.Size() {
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
