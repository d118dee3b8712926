package gen

import (
	"go/token"
	"go/types"
	"iter"
	"slices"
	"strings"
)

// hasPointers reports whether the garbage collector scans a value of type t: the allocator treats such
// objects differently. A type that does not type-check may have pointers.
func hasPointers(t types.Type) bool {
	switch t := t.Underlying().(type) {
	case *types.Basic:
		return t.Info()&types.IsString != 0 || t.Kind() == types.UnsafePointer || t.Kind() == types.Invalid
	case *types.Array:
		return t.Len() > 0 && hasPointers(t.Elem())
	case *types.Struct:
		for f := range t.Fields() {
			if hasPointers(f.Type()) {
				return true
			}
		}
		return false
	}
	return true
}

// silent reports whether a value of t has nothing to walk: no pointers, and no part with a stated size.
func (g *generator) silent(from *types.Package, t types.Type) bool {
	return !hasPointers(t) && !g.statedIn(from, t)
}

// statedIn reports whether t or a part of it has a stated size.
func (g *generator) statedIn(from *types.Package, t types.Type) bool {
	n := named(t)
	if n != nil {
		if _, ok := g.typeDirective(from, g.original(n), dirSize, dirOpaque); ok {
			return true
		}
	}
	switch t := t.Underlying().(type) {
	case *types.Array:
		return g.statedIn(from, t.Elem())
	case *types.Struct:
		for f := range t.Fields() {
			if _, ok := g.fieldDirective(from, n, f, dirSize, dirOpaque); ok || g.statedIn(from, f.Type()) {
				return true
			}
		}
	}
	return false
}

// holdsMap reports whether a value of t is a map or contains one.
func holdsMap(t types.Type) bool {
	switch t := t.Underlying().(type) {
	case *types.Map:
		return true
	case *types.Array:
		return holdsMap(t.Elem())
	case *types.Struct:
		for f := range t.Fields() {
			if holdsMap(f.Type()) {
				return true
			}
		}
	}
	return false
}

// holdsInterface reports whether a //sizegen:types for a field of type t has a meaning: t is a sync.Map, or
// contains an interface that is not inside of another defined type.
func holdsInterface(t types.Type) bool {
	if n := named(t); types.IsInterface(t) || n != nil && qualified(n) == syncMap {
		return true
	}
	switch t := types.Unalias(t).(type) {
	case *types.Pointer:
		return holdsInterface(t.Elem())
	case *types.Slice:
		return holdsInterface(t.Elem())
	case *types.Array:
		return holdsInterface(t.Elem())
	case *types.Map:
		return holdsInterface(t.Key()) || holdsInterface(t.Elem())
	}
	return false
}

// unseen reports whether the walk cannot see what a t holds, or may not.
func unseen(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Signature, *types.Chan, *types.Interface:
		return true
	case *types.Basic:
		return u.Kind() == types.UnsafePointer
	}
	return false
}

// hasUnseen reports whether t is a slice, array or map that has such parts.
func hasUnseen(t types.Type) bool {
	part := func(t types.Type) bool { return unseen(t) || named(t) == nil && hasUnseen(t) }
	switch t := t.Underlying().(type) {
	case *types.Slice:
		return part(t.Elem())
	case *types.Array:
		return part(t.Elem())
	case *types.Map:
		return part(t.Key()) || part(t.Elem())
	}
	return false
}

// replaced reports whether detaching may change the bytes of a t itself, and not only those of the objects it
// points to: strings get new data words, interfaces new boxes.
func replaced(t types.Type) bool {
	switch t := t.Underlying().(type) {
	case *types.Basic:
		return t.Info()&types.IsString != 0
	case *types.Array:
		return t.Len() > 0 && replaced(t.Elem())
	case *types.Struct:
		for f := range t.Fields() {
			if replaced(f.Type()) {
				return true
			}
		}
		return false
	case *types.Interface:
		return true
	}
	return false
}

// zeroSize reports whether values of t take no memory.
func zeroSize(t types.Type) bool {
	switch t := t.Underlying().(type) {
	case *types.Array:
		return t.Len() == 0 || zeroSize(t.Elem())
	case *types.Struct:
		for f := range t.Fields() {
			if !zeroSize(f.Type()) {
				return false
			}
		}
		return true
	}
	return false
}

// pointerShaped reports whether an interface stores a t in its data word, without a box.
func pointerShaped(t types.Type) bool {
	switch t := t.Underlying().(type) {
	case *types.Basic:
		return t.Kind() == types.UnsafePointer
	case *types.Pointer, *types.Map, *types.Chan, *types.Signature:
		return true
	case *types.Array:
		return t.Len() == 1 && pointerShaped(t.Elem())
	case *types.Struct:
		words := 0
		for f := range t.Fields() {
			switch {
			case zeroSize(f.Type()):
			case pointerShaped(f.Type()):
				words++
			default:
				return false
			}
		}
		return words == 1
	}
	return false
}

// named returns the defined type that t is, through aliases, or nil.
func named(t types.Type) *types.Named {
	n, _ := types.Unalias(t).(*types.Named)
	return n
}

// nameable reports whether package from may write t in its source without a new dependency: exported,
// declared at package level, not in an inaccessible internal directory, and in a package that from already
// depends on.
func (g *generator) nameable(from *types.Package, t types.Type) bool {
	switch t := t.(type) {
	case *types.Alias:
		return g.nameable(from, types.Unalias(t))
	case *types.Basic:
		return true
	case *types.Named:
		return every(t.TypeArgs().Types(), func(a types.Type) bool { return g.nameable(from, a) }) && g.nameableObject(from, t.Obj())
	case *types.Map:
		return g.nameable(from, t.Key()) && g.nameable(from, t.Elem())
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
		return g.nameable(from, t.Elem())
	case *types.Struct:
		return every(t.Fields(), func(f *types.Var) bool { return (f.Exported() || f.Pkg() == from) && g.nameable(from, f.Type()) })
	case *types.Interface:
		return every(t.Methods(), func(m *types.Func) bool { return (m.Exported() || m.Pkg() == from) && g.nameable(from, m.Type()) })
	case *types.Signature:
		return g.nameable(from, t.Params()) && g.nameable(from, t.Results())
	case *types.Tuple:
		return every(t.Variables(), func(v *types.Var) bool { return g.nameable(from, v.Type()) })
	}
	return false
}

// nameableObject reports whether package from may write the name of a defined type.
func (g *generator) nameableObject(from *types.Package, obj *types.TypeName) bool {
	switch {
	case obj.Pkg() == nil, g.isMirror[obj]:
		return true
	case obj.Parent() != obj.Pkg().Scope():
		return false
	case obj.Pkg() == from:
		return true
	}
	return obj.Exported() && obj.Pkg().Name() != "main" &&
		importable(from.Path(), obj.Pkg().Path()) && g.dependsOn(from.Path(), obj.Pkg().Path())
}

// every reports whether ok accepts all values of seq.
func every[T any](seq iter.Seq[T], ok func(T) bool) bool {
	for v := range seq {
		if !ok(v) {
			return false
		}
	}
	return true
}

// importable applies the rule for internal directories.
func importable(from, path string) bool {
	if strings.HasPrefix(path, "vendor/") {
		return false
	}
	i := strings.LastIndex("/"+path+"/", "/internal/")
	switch {
	case i < 0:
		return true
	case i == 0: // of the standard library
		return false
	}
	parent := strings.TrimSuffix(("/" + path)[:i], "/")
	return ("/" + from + "/")[:min(len(parent)+1, len(from)+2)] == parent+"/"
}

// Types of the standard library that are walked by heapsize.
const (
	timeTime     = "time.Time"
	timeLocation = "time.Location"
	syncMap      = "sync.Map"
)

// holdsNothing reports whether values of n, a type of the standard library, are known to own nothing: unique
// values and the descriptions of types belong to the process.
func holdsNothing(n *types.Named) bool {
	return slices.Contains([]string{"unique.Handle", "reflect.Type", "reflect.rtype", "internal/abi.Type"}, qualified(n))
}

// sealed reports whether u has a method that only its own package can declare.
func sealed(u *types.Interface) bool {
	return !every(u.Methods(), func(m *types.Func) bool { return m.Exported() })
}

// sealedIn reports whether the package of that path declares an unexported method of u.
func (g *generator) sealedIn(u *types.Interface, path string) bool {
	return !every(u.Methods(), func(m *types.Func) bool { return m.Exported() || m.Pkg().Path() != path })
}

// isOpaqueWords reports whether t replaces an interface or slice in a mirror that is not walked.
func isOpaqueWords(t *types.Array) bool {
	return t.Len() > 0 && types.Identical(t.Elem(), types.Typ[types.UnsafePointer])
}

// fieldOf returns the type of the field that the expression x selects, as declared by owner.
func (g *generator) fieldOf(owner *types.Named, x string) types.Type {
	if owner == nil {
		return nil
	}
	if s, ok := owner.Underlying().(*types.Struct); ok {
		for f := range s.Fields() {
			if f.Name() == x[strings.LastIndexByte(x, '.')+1:] {
				return f.Type()
			}
		}
	}
	return nil
}

// partOf returns the struct type and the field that an inside directive names.
func (g *generator) partOf(d directive) (whole *types.Named, part *types.Var) {
	key, ok := g.nameKey(d.part, d.file, d.pkg)
	if !ok {
		return nil, nil
	}
	i := strings.LastIndexByte(key, '.')
	j := strings.LastIndexByte(key[:max(i, 0)], '.')
	if j < 0 || g.all[key[:j]] == nil {
		return nil, nil
	}
	tn, ok := g.all[key[:j]].Types.Scope().Lookup(key[j+1 : i]).(*types.TypeName)
	if !ok {
		return nil, nil
	}
	whole = named(tn.Type())
	if s, ok := tn.Type().Underlying().(*types.Struct); ok && whole != nil {
		for f := range s.Fields() {
			if f.Name() == key[i+1:] {
				return whole, f
			}
		}
	}
	return nil, nil
}

// ownPos reports whether a position is in a source of the main module, where a directive can be placed.
func (g *generator) ownPos(pos token.Pos) bool {
	return pos.IsValid() && g.ownFiles[g.fset.File(pos)]
}

// ofMain reports whether t is a type of the main module, or one without a name.
func (g *generator) ofMain(t types.Type) bool {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	n := named(t)
	return n == nil || n.Obj().Pkg() != nil && g.inModule(n.Obj().Pkg().Path())
}

// original returns the type that n mirrors, or n.
func (g *generator) original(n *types.Named) *types.Named {
	if o := g.originals[n]; o != nil {
		return o
	}
	return n
}

func qualified(n *types.Named) string {
	if n.Obj().Pkg() == nil {
		return n.Obj().Name()
	}
	return n.Obj().Pkg().Path() + "." + n.Obj().Name()
}
