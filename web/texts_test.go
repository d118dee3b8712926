package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/history/statements"
)

// TestChangeTexts compares durations and rates on both sides of each bound.
func TestChangeTexts(t *testing.T) {
	for _, c := range []struct {
		now, before            float64
		times, duration, calls string
	}{
		{1.15, 1, "× 1.1", "duration of a call unchanged (1.15 s)", "call rate unchanged (1.15 /s)"},
		{0.86, 1, "× 0.9", "duration of a call unchanged (860 ms)", "call rate unchanged (0.86 /s)"},
		{0.84, 1, "× 0.8", "each call is shorter (1 s → 840 ms)", "fewer calls (1 /s → 0.84 /s)"},
		{6, 1, "× 6", "each call takes 6× longer (1 s → 6 s)", "6× as many calls (1 /s → 6 /s)"},
		{9.94, 1, "× 9.9", "each call takes 9.9× longer (1 s → 9.94 s)", "9.9× as many calls (1 /s → 9.94 /s)"},
		{9.95, 1, "× 10", "each call takes 10× longer (1 s → 9.95 s)", "10× as many calls (1 /s → 9.95 /s)"},
		{1e4, 1, "× 10 k", "each call takes 10 k× longer (1 s → 2.78 h)", "10 k× as many calls (1 /s → 10 k /s)"},
		{1.1e4, 1, "", "each call takes longer (1 s → 3.06 h)", "more calls (1 /s → 11 k /s)"},
		{1, 0, "", "each call takes longer (0 s → 1 s)", "more calls (0 /s → 1 /s)"},
		{0, 0, "", "duration of a call unchanged (0 s)", "call rate unchanged (0 /s)"},
	} {
		if got := [3]string{timesText(c.now, c.before), durationChange(c.now, c.before), rateChange(c.now, c.before)}; got != [3]string{c.times, c.duration, c.calls} {
			t.Errorf("%v after %v: %q", c.now, c.before, got)
		}
	}
	for off, want := range map[float64]string{0: "the same", 0.5: "50 % more", -0.25: "25 % less"} {
		if got := offText(off); got != want {
			t.Errorf("%v: %s", off, got)
		}
	}
	if part(5, 0) != -1 || part(5, 10) != 0.5 || part(0, 10) != 0 {
		t.Error("bytes sent per byte")
	}
	got := called([]float64{1, 0, 2, 3}, []float64{5, 5, 0})
	if got[0] != 1 || !math.IsNaN(got[1]) || !math.IsNaN(got[2]) || got[3] != 3 {
		t.Errorf("latencies %v", got)
	}
}

// TestProblems has the status and the text of each kind of error, as a page for browsers alone.
func TestProblems(t *testing.T) {
	for text, want := range map[string]string{"": "", "a": "A.", "z b.": "Z b.", "A b": "A b.", "`a": "`a.", "{x": "{x.", "1": "1."} {
		if got := sentence(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for name, c := range map[string]struct {
		err    error
		status int
		what   string
	}{
		"a problem": {fmt.Errorf("load: %w", badRequest(errors.New("no such range"), "Choose another.")), http.StatusBadRequest, "No such range."},
		"missing":   {notFound("there is none"), http.StatusNotFound, "There is none."},
		"too long":  {fmt.Errorf("load: %w", context.DeadlineExceeded), http.StatusGatewayTimeout, "The response took too long."},
		"another":   {errors.New("boom"), http.StatusInternalServerError, "Boom."},
	} {
		if p := problemOf(c.err); p.Status != c.status || p.What != c.what || p.Error() != c.what {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for err, want := range map[error]int{
		gateway.ErrOtherNow: http.StatusConflict, gateway.ErrNotSent: http.StatusConflict, gateway.ErrBeingKilled: http.StatusConflict, gateway.ErrNoKill: http.StatusNotImplemented,
		fmt.Errorf("kill: %w", errors.New("lost")): http.StatusBadGateway, errors.New("malformed"): http.StatusBadRequest,
	} {
		if got := killStatus(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
	for query, ok := range map[string]bool{
		"": true, "limit=1": true, "limit=0": false, fmt.Sprintf("limit=%d", maxSessions): true, fmt.Sprintf("limit=%d", maxSessions+1): false, "limit=x": false, "age=0": true, "age=1s": true, "age=-1s": false, "age=x": false,
	} {
		limit, age, err := sessionQuery(httptest.NewRequest(http.MethodGet, "/?"+query, nil).URL.Query())
		if (err == nil) != ok || ok && query == "" && (limit != defaultSessions || age != 0) || query == "age=1s" && age != time.Second || query == "limit=1" && limit != 1 {
			t.Errorf("%q: %d, %v (%v)", query, limit, age, err)
		}
	}
	for what, ok := range map[string]bool{"statement": true, "session": true, "": false, "server": false} {
		if _, err := (&killRequest{Session: 7, Command: 8, What: what}).kill(); (err == nil) != ok {
			t.Errorf("%q: %v", what, err)
		}
	}
	for want, b := range map[string]Block{
		"row lock of an unknown connection":            {Kind: "row"},
		"row lock on s.t of connection 7":              {Kind: "row", Table: "s.t", Connection: 7},
		"metadata lock of connection 7 (app, waiting)": {Kind: "metadata", Connection: 7, User: "app", State: "waiting"},
		"row lock on s.t of an unknown connection":     {Kind: "row", Table: "s.t", User: "app"},
	} {
		if got := b.words(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestNarrowing adds a matcher to a selector, or replaces that of the same label.
func TestNarrowing(t *testing.T) {
	job := labels.MustNewMatcher(labels.MatchEqual, "job", "a")
	other := labels.MustNewMatcher(labels.MatchNotEqual, "job", "b")
	for _, c := range []struct {
		ms   []*labels.Matcher
		name string
		want string
	}{{nil, "job", `{job="x"}`}, {[]*labels.Matcher{job}, "job", `{job="x"}`}, {[]*labels.Matcher{other}, "job", `{job!="b",job="x"}`}, {[]*labels.Matcher{job}, "user", `{job="a",user="x"}`}} {
		if got := narrowed(c.ms, c.name, "x"); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	for text, want := range map[string]string{"": "", "abcd": "abcd", "abcde": "abcd…", "abcé": "abc…", "abé": "abé", "é": "é"} {
		if got := cutText(text, 4); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	v := &view{r: httptest.NewRequest(http.MethodGet, "/queries", nil), query: url.Values{"filter": {"a b"}, "page": {"3"}, "group": {"user"}}}
	for _, c := range [][3]string{{"user", "app", "a b user=app"}, {"user", "", `a b user=""`}, {"user", "a b", `a b user="a b"`}, {"user", `a"`, `a b user="a\""`}, {"my tag", "x", ""}, {"Tag", "x", ""}, {"tag_1", "x", "a b tag_1=x"}} {
		link := groupLinkOf(v, c[0], c[1])
		u, err := url.Parse(link)
		if err != nil || u.Query().Get("filter") != c[2] || u.Query().Has("page") || u.Query().Has("group") || (link == "") != (c[2] == "") {
			t.Errorf("%s=%s: %s (%v)", c[0], c[1], link, err)
		}
	}
	top := &statements.Top{Rows: []statements.TopRow{{Points: []float64{0, 0, 1, 0}}, {Points: []float64{0}}}}
	top.Series.Times = make([]time.Time, 5)
	if got := aliveIn(top); !slices.Equal(got, []float64{0, 0, 1, 1, 1}) {
		t.Errorf("alive %v", got)
	}
	top.Series.Calls = []float64{7}
	if got := aliveIn(top); !slices.Equal(got, top.Series.Calls) {
		t.Errorf("alive %v", got)
	}
}

// TestLevelNames has the names of lanes, assets and routes at their bounds.
func TestLevelNames(t *testing.T) {
	if levelName(1) != "level 1" || levelName(maxLanes-1) != fmt.Sprintf("level %d", maxLanes-1) || levelName(maxLanes) != fmt.Sprintf("level %d+", maxLanes) {
		t.Errorf("%s, %s", levelName(maxLanes-1), levelName(maxLanes))
	}
	for ext, want := range map[string]string{".css": "text/css", ".js": "javascript"} {
		if got := assetKind(ext); !strings.Contains(got, want) {
			t.Errorf("%s is %s", ext, got)
		}
	}
}
