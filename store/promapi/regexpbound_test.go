package promapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/testwait"
)

// TestRegexpSteps compares the estimates for random expressions with the instructions that they compile to: they are not
// much smaller.
func TestRegexpSteps(t *testing.T) {
	rnd := testseed.Rand(t)
	parts := []string{"a", "bcd", ".", "[a-z]", "[^0-9]", `\d`, "|", "x*", "y+", "z?", "(a", "(?:b", ")", "c{3}", "d{2,7}", "e{4,}", "f{20}", "){9}", "é", "[]x]{5}", `\Q(b\E`, `\Q)c\E{7}`, `\Qd`}
	compiled := 0
	for range 10_000 {
		var b strings.Builder
		for range 1 + rnd.IntN(30) {
			b.WriteString(parts[rnd.IntN(len(parts))])
		}
		re, err := syntax.Parse("^(?s:"+b.String()+")$", syntax.Perl)
		if err != nil {
			continue
		}
		prog, err := syntax.Compile(re.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		compiled++
		if got := regexpSteps(b.String()); len(prog.Inst) > 16+8*got {
			t.Errorf("%q: %d steps, it compiles to %d instructions", b.String(), got, len(prog.Inst))
		}
	}
	if compiled < 1000 {
		t.Errorf("only %d expressions are valid", compiled)
	}
}

// TestRegexpBounds sends large expressions to each endpoint that compiles them.
func TestRegexpBounds(t *testing.T) {
	api, err := New(Options{Queryable: storage.QueryableFunc(func(int64, int64) (storage.Querier, error) { return storage.NoopQuerier(), nil })})
	if err != nil {
		t.Fatal(err)
	}
	values := make([]string, 2000)
	for i := range values {
		values[i] = fmt.Sprintf("host-%d.example", i)
	}
	for _, c := range []struct {
		name, pattern string
		want          int
	}{
		{"a digest", "[0-9a-f]{32}", http.StatusOK},
		{"values of a dashboard", strings.Join(values, "|"), http.StatusOK},
		{"long", strings.Repeat("(a|b)*", 50_000), http.StatusBadRequest},
		{"repetitions", strings.Repeat("[a-z]{900}", 200), http.StatusBadRequest},
		{"a group that closes Prometheus' own", strings.Repeat("abc.", 100) + "){30}){30}){30}((a", http.StatusBadRequest},
		{"quoted brackets", "(" + strings.Repeat("abc.", 100) + `\Q(\E){1000}`, http.StatusBadRequest},
		{"classes of Unicode", strings.Repeat(`\pL`, 1100), http.StatusBadRequest},
		{"classes of Unicode in classes", strings.Repeat(`[\p{L}]`, 1100), http.StatusBadRequest},
		{"classes of Unicode in both cases", strings.Repeat(`(?i)\PL`, 220), http.StatusBadRequest},
		{"a range in both cases", "(?mi:[B-\U0001e942])", http.StatusOK},
		{"ranges in both cases", "(?mi:" + strings.Repeat("[B-\U0001e942]", 40) + ")", http.StatusBadRequest},
		{"ranges after classes of POSIX in both cases", "(?i)" + strings.Repeat("[[:alpha:]B-\U0001e942]", 40), http.StatusBadRequest},
		{"ranges of escape sequences in both cases", "(?i)" + strings.Repeat(`[\x{42}-\x{1e942}]`, 40), http.StatusBadRequest},
		{"nested repetitions", "((" + strings.Repeat("abc.", 100) + "){30}){30}", http.StatusBadRequest},
	} {
		selector := `up{a=~` + "`" + c.pattern + "`}"
		for endpoint, field := range map[string]string{"query": "query", "query_range": "query", "parse_query": "query", "series": "match[]", "labels": "match[]"} {
			form := url.Values{field: {selector}, "start": {"0"}, "end": {"1"}, "step": {"1"}}
			r := httptest.NewRequest(http.MethodPost, "http://store/api/v1/"+endpoint, strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			if w.Code != c.want || c.want != http.StatusOK && !strings.Contains(w.Body.String(), "regular expressions are too large") {
				t.Errorf("%s: %s: %d, want %d: %.200s", c.name, endpoint, w.Code, c.want, w.Body)
			}
		}
		if _, err := NewMatcher(labels.MatchRegexp, "a", c.pattern); errors.Is(err, errRegexps) != (c.want != http.StatusOK) {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := NewMatcher(labels.MatchEqual, "a", c.pattern); err != nil {
			t.Errorf("%s, equal: %v", c.name, err)
		}
	}
	// Together they have too many steps, one by one not.
	r := new(regexps)
	for i := range 300 {
		if err := r.add(strings.Repeat("(a|b)*", 200)); (err != nil) != ((i+1)*1200 > maxRegexpSteps) {
			t.Fatalf("%d expressions: %v", i+1, err)
		}
	}
}

// TestReplaceBounds sends large expressions as an argument of label_replace.
func TestReplaceBounds(t *testing.T) {
	api, err := New(Options{Queryable: storage.QueryableFunc(func(int64, int64) (storage.Querier, error) { return storage.NoopQuerier(), nil })})
	if err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]int{"(.*):.*": http.StatusOK, "(?i)" + strings.Repeat("[B-\U0001e942]", 40): http.StatusBadRequest} {
		query := fmt.Sprintf(`sum(label_replace(vector(1), "a", "$1", "b", %q))`, pattern)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://store/api/v1/query?query="+url.QueryEscape(query), nil))
		if w.Code != want {
			t.Errorf("%.20s: %d, want %d: %.200s", pattern, w.Code, want, w.Body)
		}
	}
}

// TestLargeRegexpsWait serves a request with a large expression while another one is served: it waits, one with a small one does not.
func TestLargeRegexpsWait(t *testing.T) {
	entered, leave := make(chan struct{}, 4), make(chan struct{})
	api, err := New(Options{Queryable: storage.QueryableFunc(func(int64, int64) (storage.Querier, error) {
		entered <- struct{}{}
		<-leave
		return storage.NoopQuerier(), nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan int, 4)
	send := func(pattern string) {
		r := httptest.NewRequest(http.MethodGet, "http://store/api/v1/query?query="+url.QueryEscape("up{a=~`"+pattern+"`}"), nil)
		w := httptest.NewRecorder()
		go func() {
			api.ServeHTTP(w, r)
			done <- w.Code
		}()
	}
	large := strings.Repeat("(a|b)*", 500)
	send(large)
	testwait.Receive(t, "the first query", entered)
	send(large)
	testwait.Until(t, "the second to wait", func() bool { return api.regexps.stats().Queued == 1 })
	send("a.*b")
	testwait.Receive(t, "the small one", entered)
	if s := api.regexps.stats(); s.Running != 1 || s.Queued != 1 {
		t.Errorf("%+v", s)
	}
	close(leave)
	testwait.Receive(t, "the second query", entered)
	for range 3 {
		if code := testwait.Receive(t, "a response", done); code != http.StatusOK {
			t.Errorf("status %d", code)
		}
	}
	if s := api.regexps.stats(); s.Running != 0 || s.Queued != 0 {
		t.Errorf("after all: %+v", s)
	}
}
