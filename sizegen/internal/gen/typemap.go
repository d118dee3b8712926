package gen

import "go/types"

// A typeMap maps types to values; identical types share one. The zero map is empty. Lookups compare one by
// one: a package has some hundreds of types.
type typeMap[V any] struct {
	keys   []types.Type
	values []V
}

func (m *typeMap[V]) at(t types.Type) (v V, ok bool) {
	for i, key := range m.keys {
		if types.Identical(key, t) {
			return m.values[i], true
		}
	}
	return v, false
}

// set adds a type that is not in the map.
func (m *typeMap[V]) set(t types.Type, v V) {
	m.keys, m.values = append(m.keys, t), append(m.values, v)
}
