package copier

import (
	"slices"
	"strings"
)

// The order of a table's chunks is that of its index when they were first cut: with the direction of each column, where the index
// has both. It is recorded with the rows that the copy is of, since bounds mean other rows in another order: the index may have
// been altered before the copy is resumed. Copies without such a record have chunks in ascending order.

// keyOrderMark separates the recorded rows from the order of their chunks.
const keyOrderMark = "; chunks by "

// recordedSpec returns the text that the state stores for the rows that t copies, with the order of their chunks
// unless every column ascends.
func (t *table) recordedSpec() string {
	if !slices.Contains(t.source.Descending, true) {
		return t.spec.text()
	}
	words := make([]string, len(t.source.Descending))
	for i, descends := range t.source.Descending {
		words[i] = "asc"
		if descends {
			words[i] = "desc"
		}
	}
	return t.spec.text() + keyOrderMark + strings.Join(words, ", ")
}

// resumeOrder gives the source the recorded order. It reports false where the record is of other rows.
func (t *table) resumeOrder() bool {
	rest, ok := strings.CutPrefix(t.state.spec, t.spec.text())
	if !ok {
		return false
	}
	if rest == "" {
		t.source.Descending = nil
		return true
	}
	order, ok := strings.CutPrefix(rest, keyOrderMark)
	words := strings.Split(order, ", ")
	if !ok || len(words) != len(t.source.Key) {
		return false
	}
	t.source.Descending = nil
	for _, w := range words {
		if w != "asc" && w != "desc" {
			return false
		}
		t.source.Descending = append(t.source.Descending, w == "desc")
	}
	return true
}
