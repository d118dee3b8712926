package sqlplan

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testseed"
)

// TestMayMatch compares mayMatch with a model that tries every interpretation of a pattern.
func TestMayMatch(t *testing.T) {
	var model func(pattern, name string) bool
	model = func(pattern, name string) bool {
		switch {
		case pattern == "":
			return name == ""
		case pattern[0] == '*':
			return model(pattern[1:], name) || name != "" && model(pattern, name[1:])
		case name == "":
			return false
		case name[0] >= 0x80:
			for n := 1; n <= min(maxChar, len(name)); n++ {
				if model(pattern[1:], name[n:]) {
					return true
				}
			}
			return false
		}
		return (pattern[0] == '?' || pattern[0] == lowerByte(name[0])) && model(pattern[1:], name[1:])
	}
	rnd := rand.New(rand.NewPCG(testseed.New(t), 1))
	random := func(letters []string, most int) string {
		var b strings.Builder
		for range rnd.IntN(most + 1) {
			b.WriteString(letters[rnd.IntN(len(letters))])
		}
		return b.String()
	}
	matches := 0
	for range 20_000 {
		pattern, name := random([]string{"a", "b", "*", "?"}, 6), random([]string{"a", "B", "b", "\xc3\xa4", "\xff"}, 6)
		want := model(pattern, name)
		if got := mayMatch(pattern, name); got != want {
			t.Fatalf("mayMatch(%q, %q) is %v, want %v", pattern, name, got, want)
		}
		if want {
			matches++
		}
	}
	if matches < 1000 {
		t.Errorf("%d of 20,000 random names match", matches)
	}
}

// TestMayMatchLong matches a name of the maximum length of a statement: in quadratic time this takes minutes.
func TestMayMatchLong(t *testing.T) {
	name := strings.Repeat("a", 1<<20) + "\xc3\xa4"
	for pattern, want := range map[string]bool{"*a*": true, "*a*a*b": true, "*b?????c*": false} {
		if got := mayMatch(pattern, name); got != want {
			t.Errorf("mayMatch(%q, …) is %v, want %v", pattern, got, want)
		}
	}
}
