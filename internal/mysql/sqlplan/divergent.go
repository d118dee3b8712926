package sqlplan

// Divergent returns the scope of statements for which [sqldigest.Digester.Divergent] is true. Their plans
// assume the worst: unknown effects, any table, any type.
func (s Scope) Divergent() Scope {
	for i := range s {
		s[i] = ^s[i]
	}
	return s
}

// After is the effect of the statements of a text on a later statement of it; semicolons separate them.
type After uint8

const (
	// AfterAny : there is such a statement.
	AfterAny After = 1 << iota
	// AfterUse : one may change the default schema.
	AfterUse
	// AfterModes : one may change how the rest of the text is read.
	AfterModes
	// AfterRoutine : one creates stored code, which the rest may belong to.
	AfterRoutine
)

// After returns the scope of a statement that follows others in a text.
func (s Scope) After(a After) Scope {
	s[0] ^= byte(a)
	return s
}
