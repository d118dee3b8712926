package querylog

import "testing"

// TestContainsFold finds words at the start, in the middle and at the end of a text.
func TestContainsFold(t *testing.T) {
	for _, c := range []struct {
		text, word string
		want       bool
	}{
		{"SELECT 1", "select", true},
		{"SELECT 1", "s", true},
		{"a SELECT b", "select", true},
		{"x select", "select", true},
		{"select", "select", true},
		{"selec", "select", false},
		{"elect", "select", false},
		{"Größe", "größe", true},
		{"ÄÖ", "ö", true},
		{"ÄÖ", "äö", true},
		{"\xffselect", "select", true},
		{"sselect", "select", true},
		{"x", "", true},
		{"", "select", false},
	} {
		if got := containsFold([]byte(c.text), []byte(c.word)); got != c.want {
			t.Errorf("%q contains %q: %t", c.text, c.word, got)
		}
	}
}
