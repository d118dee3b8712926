package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// A partsSource has many callers of a statement, or fails.
type partsSource struct {
	*fakeStatements
	parts   int
	seconds float64 // of each; the statement has the sum
	err     error
}

func (p *partsSource) Statement(ctx context.Context, q statements.StatementQuery) (*statements.Statement, error) {
	st, err := p.fakeStatements.Statement(ctx, q)
	if err != nil || p.err != nil {
		return nil, errors.Join(err, p.err)
	}
	st.Parts = nil
	for i := range p.parts {
		st.Parts = append(st.Parts, statements.StatementPart{Key: stmtstats.Key{Schema: "s", User: fmt.Sprint("u", i)}, Totals: statements.Totals{Calls: uint64(i + 1), Seconds: p.seconds}})
	}
	st.Seconds = p.seconds * float64(p.parts)
	return st, nil
}

// TestStatementFails requests each form of a statement whose source does not have it, or fails: none responds with a page of it.
func TestStatementFails(t *testing.T) {
	o, _ := pageOptions()
	lost := errors.New("the disk is lost")
	source := &partsSource{fakeStatements: &fakeStatements{}, parts: 1, seconds: 1}
	o.Statements = source
	h := New(o).Handler()
	unknown := "ff" + someDigest[2:]
	for _, path := range []string{"/query/", "/incident/", "/api/v1/incidents/"} {
		for _, suffix := range []string{"", "/card.svg"} {
			if suffix != "" && path != "/incident/" {
				continue
			}
			source.err = nil
			if code, body := browse(t, h, path+unknown+suffix, "dba"); code != http.StatusNotFound {
				t.Errorf("%s: an unknown statement: %d %.200s", path+suffix, code, body)
			}
			if code, body := browse(t, h, path+"x"+suffix, "dba"); code != http.StatusBadRequest && code != http.StatusNotFound {
				t.Errorf("%s: no digest: %d %.200s", path+suffix, code, body)
			}
			source.err = lost
			if code, body := browse(t, h, path+someDigest+suffix, "dba"); code < 500 {
				t.Errorf("%s: a source that fails: %d %.200s", path+suffix, code, body)
			}
		}
	}
}

// TestCallers has an incident of a statement with few callers and with many: those with the most time are listed, with their shares.
func TestCallers(t *testing.T) {
	for _, tt := range []struct {
		parts   int
		seconds float64
		listed  int
		share   float64
	}{{0, 1, 0, 0}, {1, 2, 1, 1}, {4, 2, 4, 0.25}, {maxBars, 1, maxBars, 1.0 / maxBars}, {maxBars + 8, 1, maxBars, 1.0 / (maxBars + 8)}, {2, 0, 2, 0}} {
		o, _ := pageOptions()
		o.Statements = &partsSource{fakeStatements: &fakeStatements{}, parts: tt.parts, seconds: tt.seconds}
		code, body := browse(t, New(o).Handler(), "/api/v1/incidents/"+someDigest, "dba")
		var got incident
		if err := json.Unmarshal([]byte(body), &got); err != nil || code != http.StatusOK {
			t.Fatalf("%d %s: %v", code, body, err)
		}
		if len(got.Affected) != tt.listed {
			t.Errorf("%+v: %d callers", tt, len(got.Affected))
		}
		for _, c := range got.Affected {
			if off := c.Share - tt.share; off > 1e-9 || off < -1e-9 || c.Schema != "s" || c.Calls == 0 {
				t.Errorf("%+v: %+v", tt, c)
			}
		}
	}
}

// TestLabelView shows the values of a label with the rest of its series.
func TestLabelView(t *testing.T) {
	v := &view{r: httptest.NewRequest(http.MethodGet, "/series?selector=a", nil)}
	v.query = v.r.URL.Query()
	long := strings.Repeat("v", shownValue+1)
	for _, tt := range []struct {
		name string
		l    labelCount
		bars string
		past bool
	}{
		{"all", labelCount{Name: "l", Series: 5, Values: 2, Top: []valueCount{{"x", 3}, {"", 2}}}, `x 3, "" 2`, false},
		{"one more", labelCount{Name: "l", Series: 6, Values: 3, Top: []valueCount{{"x", 3}, {"y", 2}}}, "x 3, y 2, all other values 1", false},
		{"not counted", labelCount{Name: "l", Series: 9, Values: 2, Other: 1, Top: []valueCount{{long, 3}}}, long[:shownValue] + "… 3, all other values 6", true},
		{"none", labelCount{Name: "l", Series: 0}, "", false},
	} {
		got := newLabelView(v, nil, tt.l)
		var bars []string
		for i, b := range got.Chart.Bars {
			bars = append(bars, fmt.Sprint(b.Name, " ", b.Value))
			if linked := i < len(tt.l.Top); (b.Link != "") != linked || linked && !strings.Contains(b.Link, "selector=%7Bl%3D%22") {
				t.Errorf("%s: %q leads to %q", tt.name, b.Name, b.Link)
			}
		}
		if diff := cmp.Diff(tt.bars, strings.Join(bars, ", ")); diff != "" || got.Past != tt.past || got.Values != uint64(tt.l.Values) || got.Name != "l" || got.Chart.Whole != float64(tt.l.Series) || got.Chart.Title != "l" {
			t.Errorf("%s: %+v: %s", tt.name, got, diff)
		}
	}
	for text, want := range map[string]string{"": "", "abc": "abc", "abcd": "abc…", "abü": "ab…", "aüb": "aü…", "üüü": "ü…"} {
		if got := cutText(text, 3); got != want {
			t.Errorf("%q is cut to %q, want %q", text, got, want)
		}
	}
}

// TestCallerBars sums a statement's parts by schema, user and backend: the callers with the most time come first, maxBars of each.
func TestCallerBars(t *testing.T) {
	if charts := partsOf(&view{}, &statements.Statement{}); charts != nil {
		t.Errorf("without parts: %+v", charts)
	}
	st := &statements.Statement{Totals: statements.Totals{Seconds: 100}}
	part := func(schema, user, backend string, calls uint64, seconds float64) {
		st.Parts = append(st.Parts, statements.StatementPart{Key: stmtstats.Key{Schema: schema, User: user, Backend: backend}, Totals: statements.Totals{Calls: calls, Seconds: seconds}})
	}
	part("shop", "one", "b1", 1, 3)
	for i := range maxBars {
		part("shop", fmt.Sprint("two", i), "", 10, 2)
	}
	for i := range 5 { // together more than any other user
		part(fmt.Sprint("s", i), "last", "b2", 4, 1)
	}
	v := &view{r: httptest.NewRequest(http.MethodGet, "/query/x?from=now-6h", nil)}
	v.query = v.r.URL.Query()
	list := func(c barChart) (bars []string) {
		for _, b := range c.Bars {
			of, name, _ := strings.Cut(b.Link, "filter=")
			if want := url.QueryEscape(c.Of + "=" + b.Name); b.Name != "(none)" && (name != want && !strings.HasPrefix(name, want+"&") || !strings.HasPrefix(of, "/queries?")) || b.Name == "(none)" && b.Link != "" {
				t.Errorf("%s leads to %q", b.Name, b.Link)
			}
			bars = append(bars, fmt.Sprint(b.Name, " ", b.Value, " ", b.Note))
		}
		return bars
	}
	charts := partsOf(v, st)
	users := []string{"last 5 20 calls", "one 3 1 call"}
	for i := range maxBars - 2 {
		users = append(users, fmt.Sprintf("two%d 2 10 calls", i))
	}
	for i, want := range []struct {
		title string
		bars  []string
	}{
		{"By schema", []string{"shop 27 121 calls", "s0 1 4 calls", "s1 1 4 calls", "s2 1 4 calls", "s3 1 4 calls", "s4 1 4 calls"}},
		{"By user", users},
		{"By backend", []string{"(none) 24 120 calls", "b2 5 20 calls", "b1 3 1 call"}},
	} {
		if diff := cmp.Diff(want.bars, list(charts[i])); diff != "" || charts[i].Title != want.title || charts[i].Whole != 100 {
			t.Errorf("%s of %v: %s", charts[i].Title, charts[i].Whole, diff)
		}
	}
}
