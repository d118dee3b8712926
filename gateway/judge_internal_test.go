package gateway

import (
	"testing"

	"github.com/taredb/tare/sqldigest"
)

// TestUserIsResolved compares names as the server resolves them.
func TestUserIsResolved(t *testing.T) {
	for _, c := range []struct{ name, charset, want string }{
		{"app", "latin1", "app"},
		{"'app'", "utf8mb4", "app"},
		{"''app''", "utf8mb4", "'app'"},
		{"'", "utf8mb4", "'"},
		{"m\xfcller", "latin1", "müller"},
		{"müller", "utf8mb4", "müller"},
		{"m\xfc", "sjis", "\xffm\xfc"},
	} {
		got := string(appendUser(nil, []byte(c.name), sqldigest.CharsetNamed([]byte(c.charset))))
		if got != c.want {
			t.Errorf("%q in %s: %q, want %q", c.name, c.charset, got, c.want)
		}
	}
}
