package web

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/taredb/tare/promapi"
)

// A SeriesSource knows the series that are active.
type SeriesSource interface {
	// ActiveSeries are those series that keep wants. The labels that keep is given, and those that are
	// yielded, are valid until the next ones.
	ActiveSeries(keep func(labels.Labels) bool) iter.Seq[labels.Labels]
}

const (
	// seriesListed is how many series are shown one by one, labelValues how many values of a label.
	seriesListed = 100
	labelValues  = 12

	// countBytes bounds what counting takes: past it values that are new are counted together.
	countBytes = 16 << 20

	// valueCost is about what one value costs besides its text: an entry of a map.
	valueCost = 64
)

// textLabel has a statement's text.
const textLabel = "text"

// A labelCount is one label of the series that were counted.
type labelCount struct {
	Name   string
	Series int // that have it
	Values int // that were told apart
	Other  int // series whose value is past what is told apart
	Top    []valueCount
}

// A valueCount is one value of a label.
type valueCount struct {
	Value  string
	Series int
}

// seriesCounts are series by label.
type seriesCounts struct {
	Series int
	Labels []labelCount // those that divide the series the most first
	Listed [][]labels.Label
}

// countSeries counts the series of a source that all matchers match; without texts a statement's
// text is left out.
func countSeries(source SeriesSource, matchers []*labels.Matcher, texts bool) seriesCounts {
	keep := func(ls labels.Labels) bool {
		for _, m := range matchers {
			if !m.Matches(ls.Get(m.Name)) {
				return false
			}
		}
		return true
	}
	type tally struct {
		series, other int
		values        map[string]*int // behind pointers: assigning to a map keeps the key that was given last, which is not ours
	}
	tallies := make(map[string]*tally)
	var c seriesCounts
	taken := 0
	for ls := range source.ActiveSeries(keep) {
		var listed []labels.Label
		ls.Range(func(l labels.Label) {
			if l.Name == textLabel && !texts {
				return
			}
			t := tallies[l.Name]
			if t == nil {
				t = &tally{values: make(map[string]*int)}
				tallies[strings.Clone(l.Name)] = t
			}
			t.series++
			if n := t.values[l.Value]; n != nil {
				*n++
			} else if cost := len(l.Value) + valueCost; taken+cost <= countBytes {
				taken += cost
				one := 1
				t.values[strings.Clone(l.Value)] = &one
			} else {
				t.other++
			}
			if c.Series < seriesListed {
				listed = append(listed, labels.Label{Name: strings.Clone(l.Name), Value: strings.Clone(l.Value)})
			}
		})
		if c.Series < seriesListed {
			c.Listed = append(c.Listed, listed)
		}
		c.Series++
	}
	for name, t := range tallies {
		one := labelCount{Name: name, Series: t.series, Values: len(t.values), Other: t.other}
		for value, n := range t.values {
			one.Top = append(one.Top, valueCount{value, *n})
		}
		slices.SortFunc(one.Top, func(a, b valueCount) int {
			return cmp.Or(cmp.Compare(b.Series, a.Series), cmp.Compare(a.Value, b.Value))
		})
		one.Top = slices.Clone(one.Top[:min(len(one.Top), labelValues)])
		c.Labels = append(c.Labels, one)
	}
	slices.SortFunc(c.Labels, func(a, b labelCount) int {
		return cmp.Or(-cmp.Compare(min(a.Values, 2), min(b.Values, 2)), cmp.Compare(a.Values, b.Values), cmp.Compare(a.Name, b.Name))
	})
	return c
}

// parseSelector reads a PromQL selector; "" selects everything.
func parseSelector(text string) ([]*labels.Matcher, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if err := promapi.CheckExpr(text); err != nil {
		return nil, fmt.Errorf("selector: %w", err)
	}
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return nil, fmt.Errorf("selector: %w", err)
	}
	v, ok := expr.(*parser.VectorSelector)
	if !ok || v.OriginalOffset != 0 || v.OriginalOffsetExpr != nil || v.Timestamp != nil || v.StartOrEnd != 0 {
		return nil, errors.New(`selector: want which series, such as tare_queries_total{schema="shop"}, and nothing around it`)
	}
	return v.LabelMatchers, nil
}

// narrowed is a selector with one matcher more, or with another value for a label it has already.
func narrowed(matchers []*labels.Matcher, name, value string) string {
	var b strings.Builder
	b.WriteByte('{')
	for _, m := range matchers {
		if m.Name == name && m.Type == labels.MatchEqual {
			continue
		}
		b.WriteString(m.String() + ",")
	}
	b.WriteString(labels.MustNewMatcher(labels.MatchEqual, name, value).String() + "}")
	return b.String()
}
