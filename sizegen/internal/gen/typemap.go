package gen

import "go/types"

// A typeMap holds a value per type; identical types share it. The zero map is empty. It compares
// one by one: a package has some hundreds.
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
