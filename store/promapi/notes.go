package promapi

import (
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/util/annotations"
)

// maxNotes bounds the engine's warnings, and its infos, that a response names; further ones are counted.
const maxNotes = 10

// sortedNotes returns a response's warnings and infos as texts. Those of the storage, which say what a result
// lacks, come first and are never omitted. Both parts are sorted: the set that they come from has no order.
func sortedNotes(notes annotations.Annotations, query string) (warnings, infos []string) {
	if len(notes) == 0 {
		return nil, nil
	}
	var stored, evaluated annotations.Annotations
	for _, err := range notes {
		// Each annotation of the engine has a position in the query.
		if _, positioned := errors.AsType[interface {
			error
			SetQuery(query string)
		}](err); positioned {
			evaluated.Add(err)
		} else {
			stored.Add(err)
		}
	}
	warnings, infos = stored.AsStrings(query, 0, 0)
	more, moreInfos := evaluated.AsStrings(query, 0, 0)
	return join(warnings, more, "warning"), join(infos, moreInfos, "info")
}

// join returns the sorted texts of the storage, and up to maxNotes sorted ones of the engine.
func join(stored, evaluated []string, kind string) []string {
	slices.Sort(stored)
	slices.Sort(evaluated)
	if more := len(evaluated) - maxNotes; more > 0 {
		evaluated = append(evaluated[:maxNotes], fmt.Sprintf("%d more %s annotations omitted", more, kind))
	}
	return slices.Concat(stored, evaluated)
}
