package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/taredb/tare/internal/urlparams"
	"github.com/taredb/tare/internal/web/memory"
)

// A plansPage shows the plan cache.
type plansPage struct {
	source    func(n int) memory.Plans
	texts     *statementReader
	pages     *renderer
	queryPath string
}

// plansData is the data of the page.
type plansData struct {
	memory.Plans
	Full     float64 // used fraction of the capacity
	OfHeap   float64 // fraction of the live heap; -1: unknown
	Live     float64 // bytes
	HitShare float64 // -1: there were no lookups
	Asked    uint64
	Refusals []memory.ReasonCount // those that occurred
	Left     []memory.ReasonCount
	Rows     []planRow
	Limit    int
	Limits   []limitLink
}

// A limitLink is a link to more or fewer rows.
type limitLink struct {
	Limit int
	Link  string
	Here  bool
}

// A planRow is one plan in the table.
type planRow struct {
	memory.Plan
	Digest string
	Text   string  // of the statement; "" if it is unknown or may not be shown
	Link   string  // to the statement's page; "" if there is none
	Share  float64 // fraction of all entries
	Tables string
}

var errPage = errors.New("page: want a number that is not negative")

func (s *plansPage) load(ctx context.Context, v *view) (any, error) {
	limit, err := plansLimit(v.query.Get("limit"))
	if err != nil {
		return nil, badRequest(err)
	}
	d := plansData{Plans: s.source(limit), Limit: limit, HitShare: -1, OfHeap: -1}
	for _, n := range []int{defaultPlans, 100, maxPlans} {
		text := strconv.Itoa(n)
		if n == defaultPlans {
			text = ""
		}
		d.Limits = append(d.Limits, limitLink{n, v.with("limit", text), n == limit})
	}
	if d.Capacity > 0 {
		d.Full = float64(d.Bytes) / float64(d.Capacity)
	}
	if d.Asked = d.Hits + d.Misses; d.Asked > 0 {
		d.HitShare = float64(d.Hits) / float64(d.Asked)
	}
	if d.Live = weighNow(v.now).Live; d.Live > 0 {
		d.OfHeap = float64(d.Bytes) / d.Live
	}
	none := func(c memory.ReasonCount) bool { return c.Count == 0 }
	d.Refusals = slices.DeleteFunc(slices.Clone(d.Refused), none)
	d.Left = slices.DeleteFunc(slices.Clone(d.Evicted), none)
	texts := s.texts.names(ctx, v)
	for _, p := range d.Largest {
		row := s.row(v, p, d.Bytes-d.Overhead)
		row.Text = texts[p.Digest]
		d.Rows = append(d.Rows, row)
	}
	return d, nil
}

func (s *plansPage) row(v *view, p memory.Plan, all int64) planRow {
	r := planRow{Plan: p, Digest: p.Digest.String()}
	if path := s.queryPath; path != "" {
		r.Link = v.link(path + r.Digest)
	}
	if all > 0 {
		r.Share = float64(p.Bytes) / float64(all)
	}
	var tables []string
	if !v.texts {
		r.Plan.Tables = nil // read from the text
		return r
	}
	for _, t := range p.Tables {
		name := t.Schema
		if t.Name != "" {
			name = strings.TrimPrefix(t.Schema+"."+t.Name, ".")
		}
		tables = append(tables, cutText(name, shownValue)+" ("+t.Access+")")
	}
	r.Tables = cutText(strings.Join(tables, ", "), 4*shownValue)
	return r
}

// reasonText describes why a plan was not kept, or was evicted.
func reasonText(reason string) string {
	if text, ok := reasonTexts[reason]; ok {
		return text
	}
	return reason
}

var reasonTexts = map[string]string{
	"large":      "exceeds the size limit of a plan",
	"policy":     "used less than the plans it would replace",
	"stale":      "outdated by a change of rules or schema",
	"incomplete": "statement text incomplete",
	"long":       "statement text too long",
	"list":       "long list that cannot be folded",
	"scope":      "planned under other rules",
	"capacity":   "evicted for capacity",
	"contest":    "replaced by a plan used more",
	"replaced":   "replaced by a newer one",
	"deleted":    "deleted",
	"cleared":    "cache cleared",
}

// Default and maximum number of plans shown in detail.
const (
	defaultPlans = 20
	maxPlans     = 1000
)

// plansLimit parses the number of plans to show in detail.
func plansLimit(text string) (int, error) {
	if text == "" {
		return defaultPlans, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxPlans {
		return 0, fmt.Errorf("limit is %.40q: want a number from 0 to %d", text, maxPlans)
	}
	return n, nil
}

// serve serves /api/v1/plans; ?limit= is the number of plans in detail.
func (s *plansPage) serve(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	n, err := plansLimit(q.Get("limit"))
	if err = cmp.Or(urlparams.Check(q, "limit"), err); err != nil {
		plain(w, http.StatusBadRequest, err.Error())
		return
	}
	s.pages.writeJSON(w, s.source(n))
}
