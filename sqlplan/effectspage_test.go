package sqlplan

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEffectsPage compares docs/reference/rule-effects.md with the effects and the types that imply them.
func TestEffectsPage(t *testing.T) {
	text, err := os.ReadFile("../docs/reference/rule-effects.md")
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile("`([a-z-]+)`")
	words := func(cell string) (list []string) {
		for _, m := range word.FindAllStringSubmatch(cell, -1) {
			list = append(list, m[1])
		}
		return list
	}
	var onPage Effect
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		for _, name := range words(cells[1]) {
			e, err := ParseEffect(name)
			if err != nil || onPage&e != 0 {
				t.Errorf("%s: %v, or twice", name, err)
			}
			onPage |= e
			var want []string
			for i := range AllTypes() {
				if i.Implied()&e != 0 {
					want = append(want, i.String())
				}
			}
			got := words(cells[3])
			slices.Sort(got)
			slices.Sort(want)
			if strings.Contains(cells[3], " type") {
				continue // described in words
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: the page has the types %v, want %v", name, got, want)
			}
		}
	}
	for e := range AllEffects() {
		if onPage&e == 0 {
			t.Errorf("%s is not on the page", e)
		}
	}
}
