package heapsize

import (
	"reflect"
	"sync"
	"unsafe"
)

// WalkSyncMap records the nodes of m, and calls walk for its keys and elements, which may change them as for
// an interface variable: a new box has to contain an equal value. On a Go release with another layout of
// sync.Map the walk stops with an [Error]. It must not run while m is written.
//
// WalkSyncMap does not allocate.
func WalkSyncMap(w *Walk, m *sync.Map, walk func(*Walk, *any)) {
	if !syncMapKnown() {
		panic(&Error{Where: "sync.Map", Why: "its nodes in this Go release are not those that heapsize knows"})
	}
	walkTrie(w, (*syncMap)(unsafe.Pointer(m)).root, walk)
}

func walkTrie(w *Walk, t *trieNode, walk func(*Walk, *any)) {
	if !w.Enter(unsafe.Pointer(t), unsafe.Sizeof(*t), true) {
		return
	}
	for _, child := range t.children {
		switch {
		case child == nil:
		case !child.isEntry:
			walkTrie(w, (*trieNode)(unsafe.Pointer(child)), walk)
		default:
			for e := (*trieEntry)(unsafe.Pointer(child)); w.Enter(unsafe.Pointer(e), unsafe.Sizeof(*e), true); e = e.overflow {
				walk(w, &e.key)
				walk(w, &e.elem)
			}
		}
	}
}

// syncMap, trieNode and trieEntry have the layout of sync.Map, and of indirect and entry in internal/sync. Both
// nodes start with a trieHead.
type (
	syncMap struct {
		inited   uint32
		_        [8]byte // a mutex
		root     *trieNode
		keyHash  func()
		valEqual func()
		seed     uintptr
	}
	trieHead struct{ isEntry bool }
	trieNode struct {
		trieHead
		dead     uint32
		_        [8]byte // a mutex
		parent   *trieNode
		children [16]*trieHead
	}
	trieEntry struct {
		trieHead
		overflow  *trieEntry
		key, elem any
	}
)

var syncMapKnown = sync.OnceValue(verifySyncMap) //nolint:gochecknoglobals // of the running program, checked once

// verifySyncMap compares the layouts by reflection as far as types lead, and then the entries of a map with the
// expected values.
func verifySyncMap() bool {
	inner, ok := reflect.TypeFor[sync.Map]().FieldByName("m")
	if !ok || inner.Offset != 0 || !sameFields(inner.Type, reflect.TypeFor[syncMap](), "inited", "root", "keyHash", "valEqual", "seed") {
		return false
	}
	root, _ := inner.Type.FieldByName("root")
	node, ok := pointedTo(root.Type)
	if !ok || !sameFields(node, reflect.TypeFor[trieNode](), "dead", "parent", "children") {
		return false
	}
	children, _ := node.FieldByName("children")
	if children.Type.Kind() != reflect.Array || children.Type.Len() != len(trieNode{}.children) {
		return false
	}
	head, ok := pointedTo(children.Type.Elem())
	if !ok || head.Kind() != reflect.Struct || head.NumField() != 1 || head.Field(0).Name != "isEntry" || head.Size() != unsafe.Sizeof(trieHead{}) {
		return false
	}
	return verifySyncMapEntry()
}

// pointedTo returns the target of an atomic.Pointer type.
func pointedTo(t reflect.Type) (reflect.Type, bool) {
	load, ok := reflect.PointerTo(t).MethodByName("Load")
	if !ok || load.Type.NumOut() != 1 || load.Type.Out(0).Kind() != reflect.Pointer {
		return nil, false
	}
	return load.Type.Out(0).Elem(), true
}

// sameFields reports whether two struct types have the same size, and fields of those names at the same offsets.
func sameFields(a, b reflect.Type, names ...string) bool {
	if a.Kind() != reflect.Struct || a.Size() != b.Size() {
		return false
	}
	for _, name := range names {
		x, inA := a.FieldByName(name)
		y, inB := b.FieldByName(name)
		if !inA || !inB || x.Offset != y.Offset || x.Type.Size() != y.Type.Size() {
			return false
		}
	}
	return true
}

// verifySyncMapEntry reports whether the entry of a map has the expected key and value. It compares words of a
// known object, and reads no pointer of it before.
func verifySyncMapEntry() bool {
	key, elem := new(int), new(string)
	var m sync.Map
	m.Store(key, elem)
	for _, child := range (*syncMap)(unsafe.Pointer(&m)).root.children {
		if child == nil {
			continue
		}
		if !child.isEntry {
			return false
		}
		have := (*[6]uintptr)(unsafe.Pointer(child))
		var k, v any = key, elem
		wordsOf := func(x *any) [2]uintptr { return *(*[2]uintptr)(unsafe.Pointer(x)) }
		kw, vw := wordsOf(&k), wordsOf(&v)
		return have[1] == 0 && [4]uintptr(have[2:]) == [4]uintptr{kw[0], kw[1], vw[0], vw[1]}
	}
	return false
}
