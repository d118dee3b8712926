package tabledef

import (
	"slices"
	"strings"
)

// Chunks are in the order of the table's index when they were first cut, including the direction of each
// column if the index has both directions. The order is recorded with the specification of the rows, because
// bounds denote other rows in another order, and the index may have been altered before the copy is resumed.
// Copies without such a record have chunks in ascending order.

// keyOrderMark separates the recorded rows from the order of their chunks.
const keyOrderMark = "; chunks by "

// RecordedSpec returns the text that the state stores for the rows of t, with the order of their chunks
// unless every column is ascending.
func (t *Table) RecordedSpec() string {
	if !slices.Contains(t.Source.Descending, true) {
		return t.Spec.Text()
	}
	words := make([]string, len(t.Source.Descending))
	for i, descends := range t.Source.Descending {
		words[i] = "asc"
		if descends {
			words[i] = "desc"
		}
	}
	return t.Spec.Text() + keyOrderMark + strings.Join(words, ", ")
}

// ResumeOrder sets the recorded order on the source. It reports false if the record describes other rows.
func (t *Table) ResumeOrder() bool {
	rest, ok := strings.CutPrefix(t.State.Spec, t.Spec.Text())
	if !ok {
		return false
	}
	if rest == "" {
		t.Source.Descending = nil
		return true
	}
	order, ok := strings.CutPrefix(rest, keyOrderMark)
	words := strings.Split(order, ", ")
	if !ok || len(words) != len(t.Source.Key) {
		return false
	}
	t.Source.Descending = nil
	for _, w := range words {
		if w != "asc" && w != "desc" {
			return false
		}
		t.Source.Descending = append(t.Source.Descending, w == "desc")
	}
	return true
}
