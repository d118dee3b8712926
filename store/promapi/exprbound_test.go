package promapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/store/promapi"
)

// TestExpressionBounds expects every endpoint that parses expressions to reject nested or long ones
// immediately, and to accept wide selectors and long strings.
func TestExpressionBounds(t *testing.T) {
	api := newAPI(t, nil)
	nested := func(n int, opening, inner, closing string) string {
		return strings.Repeat(opening, n) + inner + strings.Repeat(closing, n)
	}
	wide := "up{" + strings.Repeat(`a!="(+-",`, 5000) + "}" // 5,000 matchers
	for _, c := range []struct {
		name, expr    string
		query, format int
	}{
		{"parentheses", nested(4001, "(", "1", ")"), http.StatusBadRequest, http.StatusBadRequest},
		{"many parentheses", nested(500_000, "(", "1", ")"), http.StatusBadRequest, http.StatusBadRequest},
		{"calls", nested(5000, "abs(", "up", ")"), http.StatusBadRequest, http.StatusBadRequest},
		{"subqueries", nested(2500, "max_over_time(", "up", "[1m:1s])"), http.StatusBadRequest, http.StatusBadRequest},
		{"signs", nested(1_000_000, "-", "1", ""), http.StatusBadRequest, http.StatusBadRequest},
		{"sums", nested(500_000, "1+", "1", ""), http.StatusBadRequest, http.StatusBadRequest},
		{"unclosed", nested(500_000, "(", "", ""), http.StatusBadRequest, http.StatusBadRequest},
		{"bytes", `up{a="` + strings.Repeat("x", 1<<20) + `"}`, http.StatusBadRequest, http.StatusBadRequest},
		{"a sum to evaluate", nested(300, "1+", "1", ""), http.StatusOK, http.StatusBadRequest},
		{"a sum to format", nested(250, "1+", "1", ""), http.StatusOK, http.StatusOK},
		{"matchers", wide, http.StatusOK, http.StatusOK},
		{"a long string", `up{a="` + strings.Repeat("(", 10_000) + `"}`, http.StatusOK, http.StatusOK},
	} {
		for path, want := range map[string]int{"query": c.query, "query_range": c.query, "parse_query": c.query, "format_query": c.format} {
			form := url.Values{"query": {c.expr}, "start": {"0"}, "end": {"1"}, "step": {"1"}}
			r := httptest.NewRequest(http.MethodPost, "http://store/api/v1/"+path, strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s: %s: %d, want %d: %.300s", c.name, path, w.Code, want, w.Body)
			}
			if want == http.StatusBadRequest && !strings.Contains(w.Body.String(), "split the expression") {
				t.Errorf("%s: %s: %.300s", c.name, path, w.Body)
			}
		}
	}
	form := url.Values{"match[]": {`up{a="` + strings.Repeat("x", 1<<20) + `"}`}}
	r := httptest.NewRequest(http.MethodPost, "http://store/api/v1/series", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	if api.ServeHTTP(w, r); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "split the expression") {
		t.Errorf("series: %d %.300s", w.Code, w.Body)
	}
}

// A heldParser blocks on expressions of two bytes and more until it is released.
type heldParser struct {
	parser.Parser
	entered      chan struct{}
	release      chan struct{}
	inside, most atomic.Int64
}

func (p *heldParser) ParseExpr(input string) (parser.Expr, error) {
	if len(input) > 1 {
		n := p.inside.Add(1)
		defer p.inside.Add(-1)
		for most := p.most.Load(); n > most && !p.most.CompareAndSwap(most, n); most = p.most.Load() {
		}
		p.entered <- struct{}{}
		<-p.release
	}
	return p.Parser.ParseExpr(input)
}

// TestDeepExpressionsInTurn sends deep expressions from several clients: one is parsed at a time, and a short
// one concurrently.
func TestDeepExpressionsInTurn(t *testing.T) {
	const clients = 4
	held := &heldParser{Parser: parser.NewParser(parser.Options{}), entered: make(chan struct{}, clients), release: make(chan struct{})}
	api := newAPI(t, func(o *promapi.Options) { o.Parser = held })
	parse := func(expr string) int {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/parse_query?query="+url.QueryEscape(expr), nil))
		return w.Code
	}
	deep := strings.Repeat("1+", 1000) + "1"
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			if code := parse(deep); code != http.StatusOK {
				t.Errorf("a deep expression: %d", code)
			}
		})
	}
	testwait.Receive(t, "a deep expression to be parsed", held.entered)
	if code := parse("1"); code != http.StatusOK {
		t.Errorf("a short expression beside it: %d", code)
	}
	close(held.release)
	testwait.Group(t, "the clients", &group)
	if n := held.most.Load(); n != 1 {
		t.Errorf("%d deep expressions were parsed at once", n)
	}
}

// TestDeepExpressionTimeout makes a deep expression wait for another until its request times out or its
// client disconnects.
func TestDeepExpressionTimeout(t *testing.T) {
	held := &heldParser{Parser: parser.NewParser(parser.Options{}), entered: make(chan struct{}, 1), release: make(chan struct{})}
	api := newAPI(t, func(o *promapi.Options) { o.Parser = held })
	deep := url.QueryEscape(strings.Repeat("1+", 1000) + "1")
	get := func(ctx context.Context, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/"+path+deep, nil))
		return w
	}
	var first sync.WaitGroup
	first.Go(func() {
		if w := get(t.Context(), "query?query="); w.Code != http.StatusOK {
			t.Errorf("the first deep expression: %d %s", w.Code, w.Body)
		}
	})
	testwait.Receive(t, "a deep expression to be parsed", held.entered)
	disconnected, disconnect := context.WithCancel(t.Context())
	disconnect()
	for _, path := range []string{"query?query=", "query_range?start=0&end=1&step=1&query=", "query_exemplars?start=0&end=1&query=", "parse_query?query="} {
		if w := get(disconnected, path); w.Code != 499 {
			t.Errorf("%s of a client that disconnected: %d %s", path, w.Code, w.Body)
		}
	}
	if w := get(t.Context(), "query?timeout=1ms&query="); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"errorType":"timeout"`) {
		t.Errorf("with a time-out: %d %s", w.Code, w.Body)
	}
	close(held.release)
	testwait.Group(t, "the first deep expression", &first)
}

// TestParsingIsAdmitted expects expressions to be parsed and formatted after their admission, not before.
func TestParsingIsAdmitted(t *testing.T) {
	refuse, released := true, 0
	api := newAPI(t, func(o *promapi.Options) {
		o.Admit = func(ctx context.Context, _ *http.Request) (context.Context, func(), error) {
			if refuse {
				return ctx, nil, errors.New("no room")
			}
			return ctx, func() { released++ }, nil
		}
	})
	for n, path := range []string{"parse_query", "format_query"} {
		for _, c := range []struct {
			refuse bool
			code   int
		}{{true, http.StatusServiceUnavailable}, {false, http.StatusOK}} {
			refuse = c.refuse
			w := httptest.NewRecorder()
			api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/"+path+"?query=up", nil))
			if w.Code != c.code {
				t.Errorf("%s: %d, want %d: %s", path, w.Code, c.code, w.Body)
			}
		}
		if released != n+1 {
			t.Errorf("%s: %d admissions were released, want %d", path, released, n+1)
		}
	}
}
