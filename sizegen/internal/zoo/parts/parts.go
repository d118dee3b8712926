package parts

// A Part is contained in types of another package.
type Part struct {
	name  string
	bytes []byte
	Sub   *Sub
	inner sub
}

// Sub is reached through Part only.
type Sub struct{ tags map[string]string }

type sub struct{ text *string }

// New returns a Part with all its fields set.
func New(name string, bytes []byte, tags map[string]string, text *string) *Part {
	return &Part{name, bytes, &Sub{tags}, sub{text}}
}

// A Stack is a generic type with unexported fields: its instances are mirrored.
type Stack[T any] struct {
	items []T
	index map[string]int
}

// Push adds an item.
func (s *Stack[T]) Push(name string, item T) {
	s.items = append(s.items, item)
	if s.index == nil {
		s.index = make(map[string]int)
	}
	s.index[name] = len(s.items)
}
