package calls

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// The dimensions that are compared, besides "tag " and the key of a sqlcommenter tag.
const (
	DimensionUser    = "user"
	DimensionClient  = "client"
	DimensionSchema  = "schema"
	DimensionBackend = "backend"
	DimensionRows    = "rows"
	DimensionError   = "error"
)

const (
	// least is the smallest reported difference of fractions, and maxDifferences bounds the number of
	// differences reported.
	least          = 0.1
	maxDifferences = 12

	// LeastCalls is the minimum number of calls in each set: fractions of fewer are not meaningful.
	LeastCalls = 6
)

// A Difference is a property that is more or less frequent in one of two sets of calls.
type Difference struct {
	Dimension string  `json:"dimension"`
	Value     string  `json:"value"`  // "" for none
	Before    float64 `json:"before"` // fraction of the calls in the first set, 0 to 1
	Within    float64 `json:"within"` // fraction in the second
}

// Compare returns the properties whose fractions differ by a tenth or more, the largest differences first. It
// returns none if a set has fewer than LeastCalls calls. Calls count with their weights.
func Compare(before, within []Call) []Difference {
	if len(before) < LeastCalls || len(within) < LeastCalls {
		return nil
	}
	type property struct{ dimension, value string }
	shares := make(map[property]*[2]float64)
	for i, set := range [2][]Call{before, within} {
		total := 0.0
		for k := range set {
			total += set[k].Weight
		}
		for k := range set {
			c := &set[k]
			set[k].properties(func(dimension, value string) {
				p := property{dimension, value}
				if shares[p] == nil {
					shares[p] = new([2]float64)
				}
				shares[p][i] += c.Weight / total
			})
		}
	}
	var all []Difference
	for p, s := range shares {
		if math.Abs(s[1]-s[0]) >= least {
			all = append(all, Difference{p.dimension, p.value, min(s[0], 1), min(s[1], 1)})
		}
	}
	slices.SortFunc(all, func(a, b Difference) int {
		return cmp.Or(
			cmp.Compare(math.Abs(b.Within-b.Before), math.Abs(a.Within-a.Before)),
			cmp.Compare(b.Within, a.Within), // of equal differences, new properties before vanished ones
			cmp.Compare(a.Dimension, b.Dimension), cmp.Compare(a.Value, b.Value),
		)
	})
	return all[:min(len(all), maxDifferences)]
}

// properties yields the properties that Compare compares.
func (c *Call) properties(yield func(dimension, value string)) {
	yield(DimensionUser, c.User)
	yield(DimensionClient, c.Client)
	yield(DimensionSchema, c.Schema)
	yield(DimensionBackend, c.Backend)
	yield(DimensionRows, rowsClass(c.Rows))
	errno := ""
	if c.Error != 0 {
		errno = strconv.Itoa(int(c.Error))
	}
	yield(DimensionError, errno)
	for _, t := range c.Tags {
		yield("tag "+t.Key, t.Value)
	}
}

// rowsClass returns the class of a number of rows, by powers of ten.
func rowsClass(n uint64) string {
	switch {
	case n < 2:
		return strconv.FormatUint(n, 10)
	case n < 10:
		return "2–9"
	}
	low := uint64(10)
	for n/10 >= low && low < 1_000_000 {
		low *= 10
	}
	if low == 1_000_000 {
		return "1000000 or more"
	}
	return strconv.FormatUint(low, 10) + "–" + strconv.FormatUint(10*low-1, 10)
}
