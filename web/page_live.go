package web

import (
	"context"
	"net/url"
	"strings"

	"github.com/taredb/tare/querylog"
)

// liveData is the data of the page.
type liveData struct {
	Columns []querylog.Column
	Filter  string
	Slow    string
	Query   string // path of a statement's page, before its digest; "" if there are none
	Text    string // latest lines as text, for browsers without scripts
}

// defaultSlow is the duration from which a line is marked as slow.
const defaultSlow = "100ms"

// A livePage shows the query log as it is written.
type livePage struct {
	columns   []querylog.Column
	queryPath string
}

func (s *livePage) load(_ context.Context, v *view) (any, error) {
	d := liveData{Columns: s.columns, Filter: cutText(strings.TrimSpace(v.query.Get("filter")), maxSelector), Slow: strings.TrimSpace(v.query.Get("slow"))}
	d.Query = s.queryPath
	if d.Slow == "" {
		d.Slow = defaultSlow
	}
	d.Slow = cutText(d.Slow, 20)
	d.Text = withPairs("/debug/querylog", url.Values{}, []string{"format", "text", "for", "0s", "filter", d.Filter})
	return d, nil
}
