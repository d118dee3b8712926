package web

//go:generate go test -run ^TestCompiledPages$ . -rewrite-pages

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/spans"
	"github.com/taredb/tare/internal/visible"
)

// pageTimeout bounds the queries of a page.
const pageTimeout = 20 * time.Second

// A page is one Go file that collects its data, and one template that displays them.
type page struct {
	path     string // "/queries"; pages with a wildcard are not in the navigation
	title    string
	template string // file in templates, without .html; it defines "main", which pages_gen.go has as a function
	key      string // letter of the keyboard shortcut after g; "" for none
	hidden   bool   // not in the navigation
	fixed    bool   // without a time range
	follow   bool   // refreshed although it has no time range
	texts    bool   // useless without statement texts: refused to accounts that may not see them
	load     func(context.Context, *view) (any, error)
}

// A view is a request for a page.
type view struct {
	r     *http.Request
	query url.Values
	now   time.Time
	span  span
	texts bool // whether statement texts may be shown

	account access.Account

	Attention
}

// setAccount records the request's account.
func (v *view) setAccount(r *http.Request) {
	v.account = access.Of(r.Context())
	v.texts = v.account.Texts
}

// link returns the path with the view's time range and more parameters: pairs of name and value.
func (v *view) link(path string, pairs ...string) string {
	q := url.Values{}
	if v.query.Has("from") || v.query.Has("to") {
		v.span.put(q)
	}
	return withPairs(path, q, pairs)
}

// with returns the URL of this page with other parameters; an empty value removes one.
func (v *view) with(pairs ...string) string {
	q := url.Values{}
	for name, values := range v.query {
		q[name] = slices.Clone(values)
	}
	return withPairs(v.r.URL.Path, q, pairs)
}

func withPairs(path string, q url.Values, pairs []string) string {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			q.Del(pairs[i])
		} else {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// A renderer writes responses: pages, problems and JSON.
type renderer struct {
	title     string // of the front page
	attention Attention
	now       func() time.Time
	log       *slog.Logger
	nav       []page // pages of the navigation
	cache     pageCache
}

// view returns the view of a request, without a time range.
func (d *renderer) view(r *http.Request) *view {
	v := &view{r: r, query: r.URL.Query(), now: d.now().UTC(), Attention: d.attention}
	v.setAccount(r)
	return v
}

// route returns the route of a page.
func (d *renderer) route(p page) Route {
	need := access.For(access.Viewer)
	if p.texts {
		need = need.WithTexts()
	}
	pattern := p.path
	if pattern == "/" {
		pattern = "/{$}"
	}
	r := NewRoute(need, "GET "+pattern, d.handler(&p))
	r.page = &p
	return r
}

// handler returns the handler of a page.
func (d *renderer) handler(p *page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := d.view(r)
		if !p.fixed {
			var err error
			if v.span, err = parseSpan(v.query, v.now); err != nil {
				d.fail(w, r, badRequest(err, "Choose one of the ranges above.", "Write times as now-1h, 2026-01-31 15:04 (UTC) or Unix seconds."))
				return
			}
		}
		body, err := d.cache.page(cacheKey(v), d.now, func() ([]byte, error) {
			ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
			defer cancel()
			loading, span := spans.Child(ctx, "load page")
			data, err := p.load(loading, v)
			span.End()
			if err != nil {
				return nil, err
			}
			_, span = spans.Child(ctx, "render page")
			defer span.End()
			return d.execute(p, v, data)
		})
		if err != nil {
			d.fail(w, r, err)
			return
		}
		writePage(w, http.StatusOK, body)
	})
}

func writePage(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "private, no-cache")
	w.Header().Set("Vary", "Authorization")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a failed write means that the client disconnected
}

// render executes a page that is not cached.
func (d *renderer) render(w http.ResponseWriter, r *http.Request, p *page, v *view, data any, status int) {
	v.r, v.query = r, r.URL.Query()
	body, err := d.execute(p, v, data)
	if err != nil {
		d.log.Error("page rendering failed", "page", p.template, "error", err)
		plain(w, http.StatusInternalServerError, "the page could not be made: the server's log says why")
		return
	}
	writePage(w, status, body)
}

// A frame is the data of the layout around a page.
type frame struct {
	Product string // "tare serve"
	Title   string
	Nav     []navItem
	Range   *rangeForm // nil: the page has no time range
	Follow  bool       // the page is refreshed
	Texts   bool       // the account sees texts, or is not known
	Now     time.Time
	Page    any
}

type navItem struct {
	Name, Path, Link, Key string
	Here                  bool
}

// A rangeForm is the form that selects the time range.
type rangeForm struct {
	Path             string
	FromText, ToText string
	Presets          []presetLink
	Keep             []pair // other parameters of the URL
	Before, After    string
	Moment           string // link with an absolute range
	Says             string // the range in full
	Relative         bool
}

type (
	presetLink struct {
		Name, Link string
		Here       bool
	}
	pair struct{ Name, Value string }
)

func (d *renderer) execute(p *page, v *view, data any) ([]byte, error) {
	write := mainOf(p.template)
	if write == nil {
		panic("BUG: there is no template " + p.template)
	}
	f := frame{Product: d.title, Title: p.title, Texts: v.texts || v.account.Role == 0, Now: v.now, Page: data}
	if titled, ok := data.(interface{ pageTitle() string }); ok {
		f.Title = titled.pageTitle()
	}
	for _, q := range d.nav {
		if v.account.Role < access.Viewer || q.texts && !v.texts {
			continue
		}
		here := v.r.URL.Path == q.path || q.path != "/" && strings.HasPrefix(v.r.URL.Path, q.path+"/")
		link := q.path
		if !q.fixed {
			link = v.link(q.path)
		}
		f.Nav = append(f.Nav, navItem{Name: q.title, Path: q.path, Link: link, Key: q.key, Here: here})
	}
	if !p.fixed {
		f.Range = newRangeForm(v)
	}
	f.Follow = p.follow || f.Range != nil && f.Range.Relative
	var content, b bytes.Buffer
	if err := write(&content, f); err != nil {
		return nil, err
	}
	partLayout(&b, f, content.Bytes())
	return []byte(visible.Text(htmlTimes(b.String()))), nil // it contains foreign texts
}

func newRangeForm(v *view) *rangeForm {
	f := &rangeForm{
		Path: v.r.URL.Path, FromText: v.span.FromText, ToText: v.span.ToText, Relative: v.span.Relative(),
		Says: spanText(v.span),
	}
	for _, p := range presets {
		here := v.span.FromText == p.From && v.span.Relative()
		f.Presets = append(f.Presets, presetLink{Name: p.Name, Link: v.with("from", p.From, "to", "now", "page", ""), Here: here})
	}
	for _, name := range sortedNames(v.query) {
		if name == "from" || name == "to" || name == "page" {
			continue
		}
		for _, value := range v.query[name] {
			f.Keep = append(f.Keep, pair{name, value})
		}
	}
	to := func(s span) string { return v.with("from", s.FromText, "to", s.ToText, "page", "") }
	f.Before, f.Moment = to(v.span.shifted(-1)), to(v.span.absolute())
	if after := v.span.shifted(1); after.From.Before(v.now) {
		f.After = to(after)
	}
	return f
}

func sortedNames(q url.Values) []string {
	names := make([]string, 0, len(q))
	for name := range q {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
