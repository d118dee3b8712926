package history

import (
	"slices"
	"testing"
)

// TestSeries: each metric that is written is described, and no other.
func TestSeries(t *testing.T) {
	var names []string
	for _, s := range Series() {
		names = append(names, s.Name)
		if s.Type == "" || s.Help == "" || len(s.Labels) == 0 {
			t.Errorf("%+v is no description", s)
		}
	}
	want := slices.Clone(metricNames)
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("described %v, written %v", names, want)
	}
}
