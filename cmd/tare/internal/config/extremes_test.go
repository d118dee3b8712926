package config

import (
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testextremes"
)

// TestExtremes sets each option of a numeric kind, in each section, to values at the ends of its range and
// beyond: the value is accepted and its printed form is accepted again, or it is refused by an error that
// names the option.
func TestExtremes(t *testing.T) {
	for _, s := range Sections() {
		for _, o := range s.Options() {
			values := testextremes.Of(o.Kind)
			if values == nil && (o.Default != "" && strings.ContainsAny(o.Default[:1], "0123456789") && !strings.Contains(o.Default, ":")) {
				t.Errorf("--%s of %s has the kind %q and the default %s: testextremes does not have the kind", o.Name, s.Name, o.Kind, o.Default)
			}
			accepted := 0
			for _, text := range values {
				err := o.set(text, Origin{FromFlag, "--" + o.Name})
				if err != nil {
					if !strings.HasPrefix(err.Error(), "--"+o.Name+": ") || !strings.Contains(err.Error(), "want ") {
						t.Errorf("--%s %s: %v", o.Name, text, err)
					}
					continue
				}
				accepted++
				printed := o.Text()
				if err := o.set(printed, Origin{FromFlag, "--" + o.Name}); err != nil || o.Text() != printed {
					t.Errorf("--%s %s is printed as %s, which is read as %s, %v", o.Name, text, printed, o.Text(), err)
				}
			}
			if len(values) > 0 && (accepted == 0 || accepted == len(values)) {
				t.Errorf("--%s of %s accepts %d of %v", o.Name, s.Name, accepted, values)
			}
		}
	}
}
