package tabledef

import "testing"

// TestPlainExpression checks expressions as MySQL and MariaDB print them.
func TestPlainExpression(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"(`a` + 1)", "`a` + 1", true},
		{"concat(`b`,_utf8mb4\\',) AS (x\\',char(39))", "concat(`b`,',) AS (x',char(39))", true},
		{"(`a` + 1) * (`b`)", "`a` + 1) * (`b`", false},
		{"((`a` + `b`) * 2)", "`a` + `b` * 2", false},
		{"`x_utf8mb4`", "`x`", false},
	} {
		if same := plainExpression(tt.a) == plainExpression(tt.b); same != tt.same {
			t.Errorf("%s and %s: same %v", tt.a, tt.b, same)
		}
	}
}
