package heapsize

import (
	"reflect"
	"unsafe"
)

// pathTo returns the field, path.Type.Field, that points to an address, found by reflection from root. It is for errors:
// it visits all that root holds.
func pathTo(root any, addr uintptr) string {
	f := pathFinder{addr: addr, seen: make(map[pathStep]bool)}
	v := reflect.ValueOf(root)
	if f.find(v, v.Type().String()) {
		return f.path
	}
	return v.Type().String()
}

// pathToType returns the field whose interface has a value of type t, or "".
func pathToType(root any, t reflect.Type) string {
	f := pathFinder{dynamic: t, seen: make(map[pathStep]bool)}
	f.find(reflect.ValueOf(root), "")
	return f.path
}

type pathStep struct {
	p unsafe.Pointer
	t reflect.Type
}

type pathFinder struct {
	addr    uintptr
	dynamic reflect.Type // searched instead of addr, in interfaces
	seen    map[pathStep]bool
	path    string
	depth   int
}

// maxPath bounds the nested calls of find: the field behind a longer path is not found.
const maxPath = 10_000

// find reports whether v, the value of the field at path, leads to the address.
func (f *pathFinder) find(v reflect.Value, path string) bool {
	if f.depth == maxPath {
		return false
	}
	f.depth++
	defer func() { f.depth-- }()
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if v.IsNil() {
			return false
		}
		if v.Kind() != reflect.Map && f.dynamic == nil && v.Pointer() == f.addr {
			f.path = path
			return true
		}
		step := pathStep{v.UnsafePointer(), v.Type()}
		if f.seen[step] {
			return false
		}
		f.seen[step] = true
	}
	switch v.Kind() {
	case reflect.Interface:
		if f.dynamic != nil && !v.IsNil() && v.Elem().Type() == f.dynamic {
			f.path = path
			return true
		}
		return !v.IsNil() && f.find(v.Elem(), path)
	case reflect.Pointer:
		return !v.IsZero() && f.find(v.Elem(), path)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if f.find(v.Index(i), path) {
				return true
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if f.find(it.Key(), path) || f.find(it.Value(), path) {
				return true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := path
			if t := v.Type(); t.Name() != "" {
				name = t.PkgPath() + "." + t.Name() + "." + t.Field(i).Name
			}
			if f.find(v.Field(i), name) {
				return true
			}
		}
	}
	return false
}
