package web

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// seriesPage shows which series are active.
func (s *Server) seriesPage() page {
	return page{path: "/series", title: "Series", template: "series", key: "s", fixed: true, follow: true, answer: s.seriesAnswer}
}

// seriesData is what the page shows.
type seriesData struct {
	Selector string
	Series   uint64
	Labels   []labelView
	Same     []string // labels that are the same on all of them, as matchers
	Listed   []string
	More     uint64 // that are not listed
	All      string // this page without a selector
	API      string // the same as JSON
}

// A labelView is a label with its commonest values.
type labelView struct {
	Name   string
	Values uint64
	Past   bool // there are more values than are told apart
	Chart  barChart
}

// maxSelector is how long a selector may be in bytes.
const maxSelector = 8 << 10

// shownValue is how much of a label's value is shown, in bytes.
const shownValue = 120

var errTextSelector = errors.New("selector: the label text has what statements say, which this account does not see")

func (s *Server) seriesAnswer(_ context.Context, v *view) (any, error) {
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
	c := countSeries(s.opts.Series, matchers, v.texts)
	d.Series = uint64(c.Series)
	for _, l := range c.Labels {
		if l.Values == 1 && l.Series == c.Series {
			d.Same = append(d.Same, labels.MustNewMatcher(labels.MatchEqual, l.Name, cutText(l.Top[0].Value, shownValue)).String())
			continue
		}
		d.Labels = append(d.Labels, s.labelView(v, matchers, l))
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

func (s *Server) labelView(v *view, matchers []*labels.Matcher, l labelCount) labelView {
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

// seriesText writes a series as PromQL does, long values cut.
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

// cutText is the beginning of a text that is longer than n bytes.
func cutText(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
