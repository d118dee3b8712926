package gateway

import "testing"

// TestUnresolvedUsers marks the names that only the server can resolve.
func TestUnresolvedUsers(t *testing.T) {
	for name, known := range map[string]bool{
		"app": true, "": true, "a.b-c@d": true, "an app": true, "'app'": false, "'": false, "app ": false, "müller": false,
		"m\xfcller": false, "app\xc3": false, "a\x01": false, "a[": false, "a~": false, "a123456789012345678901234567890123": false,
	} {
		got := userName([]byte(name))
		if want := "\xff" + name; known && got != name || !known && got != want {
			t.Errorf("%q became %q", name, got)
		}
	}
}
