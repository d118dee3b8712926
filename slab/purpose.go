package slab

import "strconv"

// A Purpose says what bytes are for, so that an account can be read by kind.
type Purpose uint8

// What a query needs bytes for.
const (
	Postings Purpose = iota // lists of series numbers
	Series                  // labels and chunk references
	Chunks                  // ranges of chunk files
	Values                  // label names and values
	Samples                 // what a query engine holds of the result
	Answers                 // encoded responses
	purposes
)

var purposeNames = [purposes]string{"postings", "series", "chunks", "values", "samples", "answers"}

// String returns the purpose as error texts and metric labels spell it.
func (p Purpose) String() string {
	if p < purposes {
		return purposeNames[p]
	}
	return "purpose " + strconv.Itoa(int(p))
}
