package zoo

// Hide sets the unexported fields of c.
func (c *Cage) Hide(label Label, a, b string) {
	c.label = label
	c.private = hidden{a, &hidden{text: b}}
	c.flat = Point{1, 2}
	c.mu.Lock()
}

// NewStack returns a stack with both fields set.
func NewStack[T any](items []T, top *T) Stack[T] { return Stack[T]{items, top} }

// NewKeeper returns a keeper that is its own boss.
func NewKeeper(keys []string, notes []byte) *Keeper {
	k := &Keeper{Keys: keys, notes: notes}
	k.Boss = k
	return k
}
