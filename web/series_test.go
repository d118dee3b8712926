package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCountSeries counts series whose labels are overwritten while they are counted.
func TestCountSeries(t *testing.T) {
	source := seriesList{
		{"__name__", "a", "schema", "shop", "text", "SELECT ?"},
		{"__name__", "a", "schema", "blog", "text", "SELECT ?, ?"},
		{"__name__", "b", "schema", "shop"},
		{"__name__", "c", "schema", "log"},
	}
	matchers, err := parseSelector(`{__name__=~"a|b"}`)
	if err != nil {
		t.Fatal(err)
	}
	got := countSeries(source, matchers, false)
	want := []labelCount{
		{Name: "__name__", Series: 3, Values: 2, Top: []valueCount{{"a", 2}, {"b", 1}}},
		{Name: "schema", Series: 3, Values: 2, Top: []valueCount{{"shop", 2}, {"blog", 1}}},
	}
	if diff := cmp.Diff(want, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if got.Series != 3 || len(got.Listed) != 3 || seriesText(got.Listed[1]) != `a{schema="blog"}` {
		t.Errorf("series: %+v", got)
	}
	if with := countSeries(source, nil, true); with.Series != 4 || with.Labels[len(with.Labels)-1].Name != "schema" || seriesText(with.Listed[0]) != `a{schema="shop", text="SELECT ?"}` {
		t.Errorf("with texts: %+v", with)
	}
	if s := narrowed(matchers, "schema", `a"b`); s != `{__name__=~"a|b",schema="a\"b"}` {
		t.Errorf("narrowed: %s", s)
	}
}

// TestCountIsBounded counts more text than is counted separately, and more series than are listed.
func TestCountIsBounded(t *testing.T) {
	var source seriesList
	for i := range 400 {
		source = append(source, []string{"__name__", "a", "big", fmt.Sprint(i, strings.Repeat("x", 64<<10))})
	}
	c := countSeries(source, nil, true)
	big := c.Labels[0]
	if big.Name != "big" || big.Series != 400 || big.Values+big.Other != 400 || big.Values*64<<10 > countBytes || big.Other == 0 || len(big.Top) != labelValues {
		t.Errorf("%s: %d series, %d values and %d others, %d shown", big.Name, big.Series, big.Values, big.Other, len(big.Top))
	}
	if len(c.Listed) != seriesListed || len(seriesText(c.Listed[0])) > 2*shownValue {
		t.Errorf("%d listed, the first as %d bytes", len(c.Listed), len(seriesText(c.Listed[0])))
	}
	for _, bad := range []string{"sum(a)", "a[5m]", "a offset 5m", "{", "a @ 3", "1", strings.Repeat("(", 5000) + "a" + strings.Repeat(")", 5000)} {
		if _, err := parseSelector(bad); err == nil {
			t.Errorf("%.100s is taken as a selector", bad)
		}
	}
}
