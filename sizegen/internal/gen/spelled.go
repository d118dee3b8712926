package gen

import (
	"go/types"
	"slices"
)

// spelled returns t with each alias that package from cannot name replaced by the type that it stands for.
func (g *generator) spelled(from *types.Package, t types.Type) types.Type {
	of := func(t types.Type) types.Type { return g.spelled(from, t) }
	switch t := t.(type) {
	case *types.Alias:
		args := every(t.TypeArgs().Types(), func(a types.Type) bool { return g.nameable(from, a) })
		if args && g.nameableObject(from, t.Obj()) {
			return t
		}
		return of(types.Unalias(t))
	case *types.Named:
		var args []types.Type
		for a := range t.TypeArgs().Types() {
			args = append(args, of(a))
		}
		if len(args) > 0 && !slices.Equal(args, slices.Collect(t.TypeArgs().Types())) {
			if inst, err := types.Instantiate(nil, t.Origin(), args, false); err == nil {
				return inst
			}
		}
	case *types.Pointer:
		return types.NewPointer(of(t.Elem()))
	case *types.Slice:
		return types.NewSlice(of(t.Elem()))
	case *types.Array:
		return types.NewArray(of(t.Elem()), t.Len())
	case *types.Chan:
		return types.NewChan(t.Dir(), of(t.Elem()))
	case *types.Map:
		return types.NewMap(of(t.Key()), of(t.Elem()))
	case *types.Struct:
		var fields []*types.Var
		var tags []string
		for i := range t.NumFields() {
			f := t.Field(i)
			fields = append(fields, types.NewField(f.Pos(), f.Pkg(), f.Name(), of(f.Type()), f.Embedded()))
			tags = append(tags, t.Tag(i))
		}
		return types.NewStruct(fields, tags)
	case *types.Signature:
		return types.NewSignatureType(nil, nil, nil, g.spelledTuple(from, t.Params()), g.spelledTuple(from, t.Results()), t.Variadic())
	}
	return t
}

func (g *generator) spelledTuple(from *types.Package, t *types.Tuple) *types.Tuple {
	var all []*types.Var
	for v := range t.Variables() {
		all = append(all, types.NewVar(v.Pos(), v.Pkg(), v.Name(), g.spelled(from, v.Type())))
	}
	return types.NewTuple(all...)
}
