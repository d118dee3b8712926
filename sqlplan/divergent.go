package sqlplan

// Divergent returns the scope of statements for which [sqldigest.Digester.Divergent] is true. Their plans
// assume the worst: unknown effects, any table, any type.
func (s Scope) Divergent() Scope {
	for i := range s {
		s[i] = ^s[i]
	}
	return s
}
