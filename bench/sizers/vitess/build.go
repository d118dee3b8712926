package vitess

import "vitess.io/vitess/go/vt/sqlparser"

// Parse returns the tree of a statement.
func Parse(text string) (*Statement, error) {
	tree, err := sqlparser.NewTestParser().Parse(text)
	return &Statement{tree}, err
}

// VitessSize returns the size by the methods that Vitess generates, or 0 for a statement without them.
func (s *Statement) VitessSize() int64 {
	if t, ok := s.Tree.(interface{ CachedSize(alloc bool) int64 }); ok {
		return 16 + t.CachedSize(true)
	}
	return 0
}
