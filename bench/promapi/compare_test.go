package promapi

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/taredb/tare/internal/visible"
)

// A response is the response to a client's request.
type response struct {
	Code    int
	Headers map[string]string
	Body    string
}

func ask(h http.Handler, r *http.Request) response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	a := response{Code: w.Code, Headers: map[string]string{}, Body: w.Body.String()}
	for _, name := range []string{"Content-Type", "Access-Control-Allow-Origin", "Access-Control-Allow-Headers", "Access-Control-Allow-Methods", "Access-Control-Expose-Headers"} {
		a.Headers[name] = w.Header().Get(name)
	}
	return a
}

// askTheirs asks Prometheus. Its responses have characters as they are that ours escape, since a terminal would obey them.
func askTheirs(h http.Handler, r *http.Request) response {
	a := ask(h, r)
	var b []byte
	for _, c := range a.Body {
		if visible.IsControl(c) {
			b = visible.AppendEscape(b, c)
		} else {
			b = utf8.AppendRune(b, c)
		}
	}
	a.Body = string(b)
	return a
}

// notes match the end of a body; strings in it have no bare quotes, so the pattern is exact.
var notes = regexp.MustCompile(`"(warnings|infos)":(\["(?:[^"\\]|\\.)*"(?:,"(?:[^"\\]|\\.)*")*\])`)

// settle normalizes parts in which two equal responses may differ.
func settle(t *testing.T, body string) string {
	t.Helper()
	return notes.ReplaceAllStringFunc(body, func(s string) string {
		m := notes.FindStringSubmatch(s)
		var list []json.RawMessage
		if err := json.Unmarshal([]byte(m[2]), &list); err != nil {
			t.Fatalf("annotations %s: %v", s, err)
		}
		texts := make([]string, len(list))
		for i, x := range list {
			texts[i] = string(x)
		}
		slices.Sort(texts)
		return fmt.Sprintf("%q:[%s]", m[1], strings.Join(texts, ","))
	})
}

// omitted matches responses with more annotations than are listed: Prometheus selects the listed ones in map
// order, so their texts cannot be compared.
var omitted = regexp.MustCompile(`\d+ more (warning|info) annotations omitted`)

// TestSameAsPrometheus sends the same requests to both handlers and expects the same bytes.
func TestSameAsPrometheus(t *testing.T) {
	const requests = 3000
	for _, maxSamples := range []int{50_000_000, 3_000} {
		t.Run(fmt.Sprintf("samples=%d", maxSamples), func(t *testing.T) {
			p := newPair(t, maxSamples)
			g := generator{rand.New(rand.NewPCG(7, uint64(maxSamples)))}
			codes := map[int]int{}
			types := map[string]int{}
			var warned, informed, failures int
			for i := range requests {
				method, path, form := g.request()
				want := askTheirs(p.theirs, newRequest(method, path, form))
				runs := p.engine.runs
				got := ask(p.ours, newRequest(method, path, form))
				if p.engine.runs != runs {
					t.Errorf("request %d: %s %s %v: the engine was asked for something else", i, method, path, form)
				}
				codes[want.Code]++
				types[errorType(want.Body)]++
				if strings.Contains(want.Body, `"warnings":[`) {
					warned++
				}
				if strings.Contains(want.Body, `"infos":[`) {
					informed++
				}
				want.Body, got.Body = settle(t, want.Body), settle(t, got.Body)
				if omitted.MatchString(want.Body) {
					want.Body, got.Body = notes.ReplaceAllString(want.Body, "$1"), notes.ReplaceAllString(got.Body, "$1")
				}
				if want.Code == http.StatusMethodNotAllowed {
					want.Body, got.Body = "", ""
				}
				if want.Code == got.Code && want.Body == got.Body && (want.Code == http.StatusMethodNotAllowed || fmt.Sprint(want.Headers) == fmt.Sprint(got.Headers)) {
					continue
				}
				failures++
				t.Errorf("request %d: %s %s %v\nwant %s\ngot  %s", i, method, path, form, excerpt(want, got), excerpt(got, want))
				if failures > 15 {
					t.FailNow()
				}
			}
			t.Logf("%d requests: codes %v, types %v, %d with warnings, %d with infos", requests, codes, types, warned, informed)
			for _, code := range []int{200, 400, 422} {
				if codes[code] < 20 {
					t.Errorf("only %d of %d requests were answered with %d: the generator makes too few", codes[code], requests, code)
				}
			}
			if warned < 100 || informed < 10 {
				t.Errorf("only %d answers with warnings and %d with infos: the generator makes too few", warned, informed)
			}
		})
	}
}

func errorType(body string) string {
	var v struct{ ErrorType string }
	if json.Unmarshal([]byte(body), &v) != nil {
		return "no JSON"
	}
	return v.ErrorType
}

// excerpt returns a response around the first different byte.
func excerpt(a, b response) string {
	i := 0
	for i < min(len(a.Body), len(b.Body)) && a.Body[i] == b.Body[i] {
		i++
	}
	from, to := max(0, i-120), min(len(a.Body), i+200)
	return fmt.Sprintf("%d %v …%s…", a.Code, a.Headers["Content-Type"], a.Body[from:to])
}
