package gen

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// concreteTypes returns the defined types of a package: its declarations, and the instances of its generic
// types in this module's sources.
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

// findInstances finds the instances of generic types in this module's sources. The type arguments of those
// within generic code are open.
func (g *generator) findInstances() {
	g.instances = make(map[string][]*types.Named)
	g.openInstances = make(map[*types.Named]bool)
	seen := make(map[string]bool)
	for _, path := range g.modulePackages() {
		p := g.all[path]
		for id, inst := range p.Instances {
			n, ok := inst.Type.(*types.Named)
			if !ok || n.Obj().Pkg() == nil {
				continue
			}
			if !closed(n) {
				if !repeatsParams(n) || !p.declares(n.Obj(), id.Pos()) {
					g.openInstances[n.Origin()] = true
				}
				continue
			}
			if key := types.TypeString(n, nil); !seen[key] {
				seen[key] = true
				g.instances[n.Obj().Pkg().Path()] = append(g.instances[n.Obj().Pkg().Path()], n)
			}
		}
	}
}

// repeatsParams reports whether the type arguments of n are the type parameters in the same order, as where
// a generic type refers to itself.
func repeatsParams(n *types.Named) bool {
	for i := range n.TypeArgs().Len() {
		if p, ok := n.TypeArgs().At(i).(*types.TypeParam); !ok || p.Index() != i {
			return false
		}
	}
	return true
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

// declares reports whether pos is in the declaration of a type, or in one of its methods.
func (p *source) declares(obj *types.TypeName, pos token.Pos) bool {
	for _, file := range p.Syntax {
		for _, decl := range file.Decls {
			if pos < decl.Pos() || decl.End() <= pos {
				continue
			}
			if fn, ok := decl.(*ast.FuncDecl); ok {
				return fn.Recv != nil && receiverName(fn.Recv) == obj.Name() && p.Types == obj.Pkg()
			}
			for _, spec := range decl.(*ast.GenDecl).Specs {
				if ts, ok := spec.(*ast.TypeSpec); ok && ts.Name.Pos() == obj.Pos() {
					return ts.Pos() <= pos && pos < ts.End()
				}
			}
			return false
		}
	}
	return false
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
// of another module, whose function bodies are not read, and those with open instances in generic code.
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
