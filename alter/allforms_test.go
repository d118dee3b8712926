//go:build e2e

package alter

import (
	"fmt"
	"testing"
)

// TestAllForms is TestForms with every form.
func TestAllForms(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		forms := readForms(t, d.product, false)
		if len(forms) < 60 {
			t.Errorf("%d forms, want 60 or more", len(forms))
		}
		for i, f := range forms {
			t.Run(f.clauses, func(t *testing.T) {
				t.Parallel()
				own := *d
				own.t = t
				own.form(f, fmt.Sprintf("all%d", i))
			})
		}
	})
}
