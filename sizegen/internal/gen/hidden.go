package gen

import (
	"fmt"
	"go/types"
	"strings"
)

// hiddenName returns the run-time name of a type that cannot be written here, or "" if it is not known.
func hiddenName(d types.Type) string {
	star, elem := "", d
	if p, ok := d.(*types.Pointer); ok {
		star, elem = "*", p.Elem()
	}
	n := named(elem)
	if n == nil || n.Obj().Pkg() == nil {
		return ""
	}
	name, ok := runtimeNameIn(n, n.Obj().Pkg().Path())
	if !ok {
		return ""
	}
	return star + name
}

// runtimeName returns the name that the runtime has for a type argument. It returns false for kinds that are not
// supported.
func runtimeName(t types.Type) (name string, ok bool) {
	switch t := types.Unalias(t).(type) {
	case *types.Basic:
		return types.Typ[t.Kind()].Name(), true // uint8 for byte
	case *types.Pointer:
		name, ok = runtimeName(t.Elem())
		return "*" + name, ok
	case *types.Slice:
		name, ok = runtimeName(t.Elem())
		return "[]" + name, ok
	case *types.Array:
		name, ok = runtimeName(t.Elem())
		return fmt.Sprintf("[%d]%s", t.Len(), name), ok
	case *types.Map:
		key, known := runtimeName(t.Key())
		name, ok = runtimeName(t.Elem())
		return "map[" + key + "]" + name, ok && known
	case *types.Interface:
		return "interface {}", t.Empty()
	case *types.Named:
		if t.Obj().Pkg() == nil {
			return t.Obj().Name(), true
		}
		return runtimeNameIn(t, escapedPath(t.Obj().Pkg().Path()))
	}
	return "", false
}

// runtimeNameIn returns the name that the runtime has for a defined type of a package.
func runtimeNameIn(n *types.Named, pkg string) (name string, ok bool) {
	if n.Obj().Parent() != n.Obj().Pkg().Scope() {
		return "", false // declared in a function
	}
	var args []string
	for t := range n.TypeArgs().Types() {
		arg, ok := runtimeName(t)
		if !ok {
			return "", false
		}
		args = append(args, arg)
	}
	name = pkg + "." + n.Obj().Name()
	if len(args) > 0 {
		name += "[" + strings.Join(args, ",") + "]"
	}
	return name, true
}

// escapedPath returns the path of a package as the linker writes it in the names of type arguments.
func escapedPath(path string) string {
	var b strings.Builder
	slash := strings.LastIndexByte(path, '/')
	for i, c := range []byte(path) {
		if c <= ' ' || c == '.' && i > slash || c == '%' || c == '"' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02x", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// isInstance reports whether d is an instance of a generic type, or points to one: methods cannot be generated for it.
func isInstance(d types.Type) bool {
	if p, ok := d.(*types.Pointer); ok {
		d = p.Elem()
	}
	n := named(d)
	return n != nil && n.TypeArgs().Len() > 0
}

// walkHidden walks v, the dynamic value of type d in the interface variable x, through a mirror.
func (e *emitter) walkHidden(x, v string, d types.Type) {
	p, pointer := d.(*types.Pointer)
	elem := d
	if pointer {
		elem = p.Elem()
	}
	if zeroSize(elem) {
		return
	}
	n := named(elem)
	if said, ok := e.o.g.typeDirective(e.o.pkg, n, dirShared); ok {
		e.recordHow("shared: " + said.reason)
		return
	}
	m := e.o.mirror(n, e.site())
	if pointer {
		e.recordHow("object")
		q := e.local("q")
		enter := fmt.Sprintf("%s := %s[%s](w, %s); %s", q, e.o.heapsize("Hidden"), m.Obj().Name(), v, e.firstVisit(q, m))
		if inner := e.captureHeap(func() { e.walk("*"+q, m) }); inner != "" {
			e.printf("if %s {\n%s}\n", enter, inner)
		} else {
			e.printf("%s\n", strings.Replace(enter, "; ", "\n", 1))
		}
		return
	}
	c := e.local("c")
	if pointerShaped(d) {
		if inner := e.captureAt(false, func() { e.walk("*"+c, m) }); inner != "" {
			e.printf("%s := %s[%s](w, %s(%s), %s)\n%s", c, e.o.heapsize("HiddenWord"), m.Obj().Name(), e.o.unsafe("Pointer"), pointerTo(x), v, inner)
		}
		return
	}
	e.recordHow("box")
	call := fmt.Sprintf("%s[%s](w, %s(%s), %s, %t, %t)", e.o.heapsize("HiddenBox"), m.Obj().Name(), e.o.unsafe("Pointer"), pointerTo(x), v, hasPointers(m), replaced(m))
	if inner := e.captureHeap(func() { e.walk("*"+c, m) }); inner != "" {
		e.printf("if %s := %s; %s != nil {\n%s}\n", c, call, c, inner)
	} else {
		e.printf("%s\n", call)
	}
}
