package heapsize

// An Entry is a copy of a map's key and element.
type Entry[K comparable, V any] struct {
	Key  K
	Elem V
}

// Entries returns copies of the entries of m, to be walked if detaching changes keys or elements themselves,
// which is not possible inside a map:
//
//	if heapsize.WalkMap(w, m, shape) {
//		es := heapsize.Entries(m)
//		for i := range es {
//			w.String(&es[i].Key)
//			walkV(w, &es[i].Elem)
//		}
//		heapsize.PutBack(w, m, es)
//	}
//
// It allocates one slice, which is kept until the Walk is reset.
func Entries[K comparable, V any](m map[K]V) []Entry[K, V] {
	es := make([]Entry[K, V], 0, len(m))
	for k, v := range m {
		es = append(es, Entry[K, V]{k, v})
	}
	return es
}

// PutBack makes Finish assign the detached entries to m. Assigning to an existing key replaces the stored key
// too if keys contain strings, floats or interfaces (the runtime's needkeyupdate), so m keeps its tables and
// its size, and its old keys are free; the tests prove it on each Go release. Call it after the entries were
// walked.
//
// One map is the exception: a single full group would grow by an assignment to an existing key. There the key
// is deleted first, which frees its slot.
//
// A key that is not equal to itself, a NaN, cannot be assigned to: the walk stops with an [Error].
func PutBack[K comparable, V any](w *Walk, m map[K]V, es []Entry[K, V]) {
	if !w.Detach {
		return
	}
	for i := range es {
		if es[i].Key != es[i].Key {
			panic(&Error{Where: typeName(m), Why: "a NaN key's strings cannot be detached"})
		}
	}
	w.After(func() {
		oneGroup := len(m) <= groupSlots
		for i := range es {
			if oneGroup {
				delete(m, es[i].Key)
			}
			m[es[i].Key] = es[i].Elem
		}
	})
}
