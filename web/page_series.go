package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/taredb/tare/store/promapi"
)

// A seriesPage shows the active series by label.
type seriesPage struct{ source SeriesSource }

// seriesData is the data of the page.
type seriesData struct {
	Selector string
	Series   uint64
	Labels   []labelView
	Same     []string // labels that all of them share, as matchers
	Listed   []string
	More     uint64 // number of series that are not listed
	All      string // link to this page without a selector
	API      string // link to the same as JSON
}

// A labelView is a label with its most frequent values.
type labelView struct {
	Name   string
	Values uint64
	Past   bool // there are more values than were counted separately
	Chart  barChart
}

// maxSelector bounds the bytes of a selector.
const maxSelector = 8 << 10

// shownValue bounds the bytes shown of a label's value.
const shownValue = 120

var errTextSelector = errors.New("selector: the label text has what statements say, which this account does not see")

func (s *seriesPage) load(_ context.Context, v *view) (any, error) {
	d := seriesData{Selector: strings.TrimSpace(v.query.Get("selector")), All: v.with("selector", "")}
	if len(d.Selector) > maxSelector {
		d.Selector = d.Selector[:maxSelector]
	}
	matchers, err := parseSelector(d.Selector)
	if err != nil {
		return nil, badRequest(err, `Ask for one metric: tare_queries_total.`, `Ask for a label: {schema="shop"}, {user=~"app.*"}.`)
	}
	for _, m := range matchers {
		if m.Name == textLabel && !v.texts {
			return nil, badRequest(errTextSelector, "Select by the label digest instead.")
		}
	}
	c := countSeries(s.source, matchers, v.texts)
	d.Series = uint64(c.Series)
	for _, l := range c.Labels {
		if l.Values == 1 && l.Series == c.Series {
			d.Same = append(d.Same, labels.MustNewMatcher(labels.MatchEqual, l.Name, cutText(l.Top[0].Value, shownValue)).String())
			continue
		}
		d.Labels = append(d.Labels, newLabelView(v, matchers, l))
	}
	for _, ls := range c.Listed {
		d.Listed = append(d.Listed, seriesText(ls))
	}
	d.More = uint64(c.Series - len(c.Listed))
	asked := d.Selector
	if asked == "" {
		asked = `{__name__!=""}`
	}
	d.API = withPairs("/api/v1/cardinality/active_series", url.Values{}, []string{"selector", asked})
	return d, nil
}

func newLabelView(v *view, matchers []*labels.Matcher, l labelCount) labelView {
	view := labelView{Name: l.Name, Values: uint64(l.Values), Past: l.Other > 0}
	view.Chart = barChart{Title: l.Name, Of: l.Name, Unit: unitCount, Whole: float64(l.Series)}
	shown := 0
	for _, one := range l.Top {
		b := bar{Name: cutText(one.Value, shownValue), Value: float64(one.Series), Link: v.with("selector", narrowed(matchers, l.Name, one.Value))}
		if one.Value == "" {
			b.Name = `""`
		}
		view.Chart.Bars = append(view.Chart.Bars, b)
		shown += one.Series
	}
	if rest := l.Series - shown; rest > 0 {
		view.Chart.Bars = append(view.Chart.Bars, bar{Name: "all other values", Value: float64(rest)})
	}
	return view
}

// seriesText formats a series like PromQL, with long values truncated.
func seriesText(ls []labels.Label) string {
	var b strings.Builder
	for _, l := range ls {
		if l.Name == model.MetricNameLabel {
			b.WriteString(l.Value)
		}
	}
	b.WriteByte('{')
	first := true
	for _, l := range ls {
		if l.Name == model.MetricNameLabel {
			continue
		}
		if !first {
			b.WriteString(", ")
		}
		first = false
		m := labels.MustNewMatcher(labels.MatchEqual, l.Name, cutText(l.Value, shownValue))
		b.WriteString(m.String())
	}
	b.WriteByte('}')
	return b.String()
}

// cutText truncates text to at most n bytes, at a rune boundary, and marks the omission with an ellipsis.
func cutText(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

// A SeriesSource provides the active series.
type SeriesSource interface {
	// ActiveSeries yields the active series for which keep returns true. Labels, whether passed to keep or
	// yielded, are valid until the next ones.
	ActiveSeries(keep func(labels.Labels) bool) iter.Seq[labels.Labels]
}

const (
	// seriesListed is the number of series listed individually, labelValues the number of values shown per
	// label.
	seriesListed = 100
	labelValues  = 12

	// countBytes bounds the memory of counting: beyond it, new values are counted together.
	countBytes = 16 << 20

	// valueCost approximates the bytes of one value besides its text: a map entry and its count.
	valueCost = 80
)

// textLabel is the label with a statement's text.
const textLabel = "text"

// A labelCount has the counts of one label.
type labelCount struct {
	Name   string
	Series int // series with the label
	Values int // values counted separately
	Other  int // series whose value was not counted separately
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
	Labels []labelCount // labels that divide the series the most come first
	Listed [][]labels.Label
}

// A seriesTally counts the values of labels, as many as fit into countBytes. Consecutive series have most labels in common: those
// of the previous series are found without a map.
type seriesTally struct {
	labels map[string]*labelTally
	taken  int           // in bytes
	last   []*labelTally // of the previous series, in the order of its labels
}

type labelTally struct {
	name          string
	series, other int
	values        map[string]*valueTally // behind pointers: assigning to a map keeps the key passed last, which the caller owns
	last          *valueTally            // counted last; nil: none
}

type valueTally struct {
	value  string
	series int
}

// add counts the label with a number in its series. Its texts need only be valid during the call.
func (c *seriesTally) add(number int, l labels.Label) {
	if number == len(c.last) {
		c.last = append(c.last, nil)
	}
	t := c.last[number]
	if t == nil || t.name != l.Name {
		t = c.labels[l.Name]
		if t == nil {
			t = &labelTally{name: strings.Clone(l.Name), values: make(map[string]*valueTally)}
			c.labels[t.name] = t
		}
		c.last[number] = t
	}
	t.series++
	if t.last != nil && t.last.value == l.Value {
		t.last.series++
		return
	}
	v := t.values[l.Value]
	if v == nil {
		cost := len(l.Value) + valueCost
		if c.taken+cost > countBytes {
			t.other++
			return
		}
		c.taken += cost
		v = &valueTally{value: strings.Clone(l.Value)}
		t.values[v.value] = v
	}
	v.series++
	t.last = v
}

// sorted returns the labels that divide the series the most first, each with its most frequent values.
func (c *seriesTally) sorted() (all []labelCount) {
	for name, t := range c.labels {
		one := labelCount{Name: name, Series: t.series, Values: len(t.values), Other: t.other}
		before := func(a, b valueCount) int {
			return cmp.Or(cmp.Compare(b.Series, a.Series), cmp.Compare(a.Value, b.Value))
		}
		for _, v := range t.values {
			count := valueCount{v.value, v.series}
			if len(one.Top) == labelValues && before(one.Top[labelValues-1], count) < 0 {
				continue
			}
			at, _ := slices.BinarySearchFunc(one.Top, count, before)
			one.Top = slices.Insert(one.Top[:min(len(one.Top), labelValues-1)], at, count)
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b labelCount) int {
		return cmp.Or(-cmp.Compare(min(a.Values, 2), min(b.Values, 2)), cmp.Compare(a.Values, b.Values), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// countSeries counts the series of a source that all matchers match. Without texts, it leaves out the
// texts of statements.
func countSeries(source SeriesSource, matchers []*labels.Matcher, texts bool) (c seriesCounts) {
	tally := seriesTally{labels: make(map[string]*labelTally)}
	for ls := range source.ActiveSeries(func(ls labels.Labels) bool {
		return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(ls.Get(m.Name)) })
	}) {
		var listed []labels.Label
		number := 0
		ls.Range(func(l labels.Label) {
			if l.Name == textLabel && !texts {
				return
			}
			tally.add(number, l)
			number++
			if c.Series < seriesListed {
				listed = append(listed, labels.Label{Name: strings.Clone(l.Name), Value: strings.Clone(l.Value)})
			}
		})
		if c.Series < seriesListed {
			c.Listed = append(c.Listed, listed)
		}
		c.Series++
	}
	c.Labels = tally.sorted()
	return c
}

// parseSelector parses a PromQL selector; "" selects everything.
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

// narrowed returns a selector with one more matcher, or with another value of a label that it already has.
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
