package gen

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// concreteTypes returns the defined types of a package: its declarations, and the instances of its generic
// types that this module's sources create.
func (g *generator) concreteTypes(path string) []*types.Named {
	if g.instances == nil {
		g.findInstances()
	}
	var out []*types.Named
	for _, n := range declaredTypes(g.all[path].Types) {
		if n.TypeParams().Len() == 0 {
			out = append(out, n)
		}
	}
	return append(out, g.instances[path]...)
}

// An instantiation is a use of a generic type or function, a *types.TypeName or *types.Func, with type arguments.
type instantiation struct {
	obj  types.Object
	args []types.Type
}

// maxInstances bounds the instances of a module: source that does not compile may have infinitely many.
const maxInstances = 1 << 14

// findInstances finds the instances of generic types in this module's sources: those that are written there, and
// those that generic functions, methods and types create where they are instantiated.
func (g *generator) findInstances() {
	g.instances = make(map[string][]*types.Named)
	g.openInstances = make(map[*types.Named]bool)
	var work []instantiation
	within := make(map[types.Object][]instantiation) // with open arguments, by the declaration that contains them
	for _, path := range g.modulePackages() {
		p := g.all[path]
		for id, inst := range p.Instances {
			use := instantiation{p.Uses[id], slices.Collect(inst.TypeArgs.Types())}
			if every(inst.TypeArgs.Types(), closed) {
				work = append(work, use)
			} else if owner := p.declaration(id.Pos()); owner != nil {
				within[owner] = append(within[owner], use)
			} else {
				g.openInstance(use)
			}
		}
	}
	seen := make(map[string]bool)
	for ; len(work) > 0; work = work[1:] {
		use := work[0]
		key := fmt.Sprint(use.obj.Pkg().Path(), use.obj.Name(), use.obj.Pos(), use.args)
		if seen[key] {
			continue
		}
		seen[key] = true
		if n := named(use.obj.Type()); n != nil && use.obj == n.Obj() {
			if inst, err := types.Instantiate(nil, n, use.args, false); err == nil {
				g.instances[n.Obj().Pkg().Path()] = append(g.instances[n.Obj().Pkg().Path()], inst.(*types.Named))
			}
		}
		for _, inner := range within[use.obj] {
			args, ok := substituted(inner.args, use.args)
			if !ok || len(seen) > maxInstances {
				g.openInstance(inner)
				continue
			}
			work = append(work, instantiation{inner.obj, args})
		}
	}
}

// openInstance records that not all instances of a generic type are found.
func (g *generator) openInstance(use instantiation) {
	if n := named(use.obj.Type()); n != nil {
		g.openInstances[n] = true
	}
}

// declaration returns the generic function or type whose declaration contains pos; for a method, the type of its
// receiver, whose type parameters it has. It returns nil for a method with further type parameters.
func (p *source) declaration(pos token.Pos) types.Object {
	for _, file := range p.Syntax {
		for _, decl := range file.Decls {
			if decl.Pos() <= pos && pos < decl.End() {
				return p.Types.Scope().Lookup(declaredName(decl, pos))
			}
		}
	}
	return nil
}

// declaredName returns the name for declaration, empty if there is none.
func declaredName(decl ast.Decl, pos token.Pos) string {
	fn, ok := decl.(*ast.FuncDecl)
	switch {
	case ok && fn.Recv == nil:
		return fn.Name.Name
	case ok && fn.Type.TypeParams != nil:
		return ""
	case ok:
		return receiverName(fn.Recv)
	}
	for _, spec := range decl.(*ast.GenDecl).Specs {
		if ts, ok := spec.(*ast.TypeSpec); ok && ts.Pos() <= pos && pos < ts.End() {
			return ts.Name.Name
		}
	}
	return ""
}

// substituted returns types with args in the place of type parameters. It returns false if it does not support one.
func substituted(list, args []types.Type) ([]types.Type, bool) {
	out := make([]types.Type, 0, len(list))
	for _, t := range list {
		t, ok := substitute(t, args)
		if !ok {
			return nil, false
		}
		out = append(out, t)
	}
	return out, true
}

func substitute(t types.Type, args []types.Type) (types.Type, bool) {
	t = types.Unalias(t)
	if closed(t) {
		return t, true
	}
	switch t := t.(type) {
	case *types.TypeParam:
		if t.Index() < len(args) {
			return args[t.Index()], true
		}
	case *types.Named:
		if inner, ok := substituted(slices.Collect(t.TypeArgs().Types()), args); ok {
			inst, err := types.Instantiate(nil, t.Origin(), inner, false)
			return inst, err == nil
		}
	case *types.Pointer:
		elem, ok := substitute(t.Elem(), args)
		return types.NewPointer(elem), ok
	case *types.Slice:
		elem, ok := substitute(t.Elem(), args)
		return types.NewSlice(elem), ok
	case *types.Array:
		elem, ok := substitute(t.Elem(), args)
		return types.NewArray(elem, t.Len()), ok
	case *types.Map:
		key, ok := substitute(t.Key(), args)
		elem, also := substitute(t.Elem(), args)
		return types.NewMap(key, elem), ok && also
	}
	return nil, false
}

// closed reports whether t has no open type argument.
func closed(t types.Type) bool {
	switch t := types.Unalias(t).(type) {
	case *types.TypeParam:
		return false
	case *types.Named:
		return every(t.TypeArgs().Types(), closed)
	case *types.Map:
		return closed(t.Key()) && closed(t.Elem())
	case interface{ Elem() types.Type }:
		return closed(t.Elem())
	case *types.Struct:
		return every(t.Fields(), func(f *types.Var) bool { return closed(f.Type()) })
	case *types.Signature:
		return closed(t.Params()) && closed(t.Results())
	case *types.Tuple:
		return every(t.Variables(), func(v *types.Var) bool { return closed(v.Type()) })
	}
	return true
}

// receiverName returns the name of a receiver's type.
func receiverName(recv *ast.FieldList) string {
	for t := recv.List[0].Type; ; {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.ParenExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// openImplementers returns the generic types that implement u and may have instances that are not found: those
// of another module, whose function bodies are not read, and those of openInstances.
func (g *generator) openImplementers(t types.Type, u *types.Interface) (open []types.Type) {
	var args []types.Type
	if n := named(t); n != nil {
		args = slices.Collect(n.TypeArgs().Types())
	}
	for path := range g.all {
		if !g.searched(u, t, path) {
			continue
		}
		for _, n := range declaredTypes(g.all[path].Types) {
			if n.TypeParams().Len() == 0 || types.IsInterface(n) || g.inModule(path) && !g.openInstances[n] {
				continue
			}
			if instanceImplements(n, args, u) {
				open = append(open, n)
			}
		}
	}
	slices.SortFunc(open, func(a, b types.Type) int { return cmp.Compare(short(a), short(b)) })
	return open
}

// instanceImplements reports whether an instance of n, or a pointer to one, implements u: the instance with
// the type arguments of u if their number is the same, or one with any.
func instanceImplements(n *types.Named, args []types.Type, u *types.Interface) bool {
	var open []types.Type
	for p := range n.TypeParams().TypeParams() {
		open = append(open, p)
	}
	for _, with := range [][]types.Type{open, args} {
		if len(with) != len(open) {
			continue
		}
		inst, err := types.Instantiate(nil, n, with, false)
		if err == nil && (types.Implements(inst, u) || types.Implements(types.NewPointer(inst), u)) {
			return true
		}
	}
	return false
}
