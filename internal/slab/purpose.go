package slab

import "strconv"

// A Purpose is the purpose of a reservation, for accounting by kind.
type Purpose uint8

// The purposes of a query's bytes.
const (
	Postings      Purpose = iota // lists of series numbers
	Series                       // labels and chunk references
	Chunks                       // ranges of chunk files
	Values                       // label names and values
	Samples                      // results of a query engine
	ResponseBytes                // encoded responses
	purposes
)

var purposeNames = [purposes]string{"postings", "series", "chunks", "values", "samples", "answers"}

// String returns the purpose's name in error texts and metric labels.
func (p Purpose) String() string {
	if p < purposes {
		return purposeNames[p]
	}
	return "purpose " + strconv.Itoa(int(p))
}
