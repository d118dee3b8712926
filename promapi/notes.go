package promapi

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/util/annotations"
)

// maxNotes bounds the warnings, and the infos, that a response names; further ones are counted.
const maxNotes = 10

// sortedNotes returns a response's warnings and infos as sorted texts. The set that they come from has no
// order.
func sortedNotes(notes annotations.Annotations, query string) (warnings, infos []string) {
	if len(notes) == 0 {
		return nil, nil
	}
	warnings, infos = notes.AsStrings(query, 0, 0)
	return cut(warnings, "warning"), cut(infos, "info")
}

func cut(list []string, kind string) []string {
	if len(list) == 0 {
		return nil
	}
	slices.Sort(list)
	if more := len(list) - maxNotes; more > 0 {
		list = append(list[:maxNotes], fmt.Sprintf("%d more %s annotations omitted", more, kind))
	}
	return list
}
