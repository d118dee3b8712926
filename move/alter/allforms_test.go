//go:build e2e

package alter

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestAllForms is TestForms with every form.
func TestAllForms(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		forms := readForms(t, d.product)
		if len(forms) < 120 {
			t.Errorf("%d forms, want 120 or more", len(forms))
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

// TestAllVerdicts is TestVerdicts with every form.
func TestAllVerdicts(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		for _, kind := range verdictTables {
			for i, f := range readForms(t, d.product) {
				d.verdict(f.clauses, kind, fmt.Sprintf("all%s%d", strings.ToLower(kind), i))
			}
		}
	})
}

// TestRevertAllForms is TestRevert with every form.
func TestRevertAllForms(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		var mu sync.Mutex
		ways := make(map[string]int)
		t.Run("forms", func(t *testing.T) {
			for i, f := range readForms(t, d.product) {
				if f.refused != "" {
					continue
				}
				t.Run(f.clauses, func(t *testing.T) {
					t.Parallel()
					own := *d
					own.t = t
					kept := own.revert(f.clauses, fmt.Sprintf("rall%d", i), i)
					mu.Lock()
					defer mu.Unlock()
					switch {
					case kept.NoWay != "":
						ways["none"]++
						t.Log("no way back:", kept.NoWay)
					case len(kept.Lossy) > 0:
						ways["lossy"]++
						t.Log("lossy:", kept.Lossy)
					default:
						ways["lossless"]++
					}
				})
			}
		})
		t.Logf("ways back: %v", ways)
		if ways["lossless"] < 20 {
			t.Errorf("%d forms have a lossless way back, want 20 or more", ways["lossless"])
		}
	})
}
