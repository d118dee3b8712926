package web

import (
	"encoding/hex"
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/history/markers"
	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/mysql/sqldigest"
)

// TestTimesArePartsOfPages checks each page: each time in its text is an element with the time in UTC, which shows the same, so
// that the script can show local times; each zone is an element; other forms than pages have neither elements nor marks.
func TestTimesArePartsOfPages(t *testing.T) {
	o := partOptions(true)
	o.Statements = risingStatements{&fakeStatements{rows: 3}}
	o.Latest = func() Latest { return Latest{Seconds: 10} }
	now := o.Now()
	store, err := markers.Open(markers.Options{Log: o.Log, Now: o.Now})
	if err != nil {
		t.Fatal(err)
	}
	store.Add(markers.Marker{Kind: "deploy", Title: "release 7", Time: now.Add(-20 * time.Minute)})
	o.Markers = store
	lock := serverstats.LockWait{From: now.Add(-time.Minute), To: now, Kind: serverstats.RowLock, Table: "shop.t", Waiters: 1}
	digest, err := hex.DecodeString(someDigest)
	if err != nil {
		t.Fatal(err)
	}
	lock.Waiting = []sqldigest.Digest{sqldigest.Digest(digest)}
	o.Counts = fakeCounts{status: serverstats.Status{At: now}, locks: []serverstats.LockWait{lock}}
	o.Routes = append(o.Routes, NewRoute(access.For(access.Viewer), rangePattern, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"b"},"values":[[1772600000,"1"],[1772600400,"2"]]}]},
			"explain":{"blocks":[{"id":"01A","min_time":1772600000000,"max_time":1772600400000}]}}`))
	})))
	s := New(o)
	h := s.Handler()
	element := regexp.MustCompile(`<(time) datetime="([^"]+)"(?: data-as="(.)")?>([^<]*)</time>|<(tspan) data-utc="([^"]+)" data-as="(.)">([^<]*)</tspan>`)
	hidden := regexp.MustCompile(`(?s)<(title|desc|option|pre|code|dialog)\b.*?</|<[^>]*>|<p>Write times[^<]*`) // and texts of others
	bare := regexp.MustCompile(`\b\d\d:\d\d(:\d\d)?\b|\b\d{4}-\d\d-\d\d\b|\b(Jan|Feb|Mar) \d+\b|UTC`)
	times := 0
	for _, r := range s.router.routes {
		p := r.page
		if p == nil {
			continue
		}
		path := strings.ReplaceAll(p.path, "{digest}", someDigest)
		for _, query := range []string{"?query=up", "?query=up&from=now-6d", "?query=up&from=now-5m"} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", path+query, nil))
			body := w.Body.String()
			if w.Code != 200 || strings.Contains(body, markStart) || strings.Contains(body, "U+FDD") {
				t.Errorf("%s: %d, with marks of times: %t", path, w.Code, strings.Contains(body, markStart) || strings.Contains(body, "U+FDD"))
			}
			for _, m := range element.FindAllStringSubmatch(body, -1) {
				at, as, text := m[2]+m[6], m[3]+m[7], m[4]+m[8]
				if as == "" {
					as = string(byte(fullTime))
				}
				when, err := time.Parse(time.RFC3339, at)
				if times++; err != nil || when.Format(timeFormat(as[0]).layout()) != text {
					t.Errorf("%s shows %s as %s: %v", path, at, text, err)
				}
			}
			rest := strings.ReplaceAll(element.ReplaceAllString(body, ""), `<span class="zone">UTC</span>`, "")
			rest = rest[strings.Index(rest, "</head>"):]
			rest = strings.ReplaceAll(rest, `<span id="zone-name">UTC</span>`, "")
			if found := bare.FindString(html.UnescapeString(hidden.ReplaceAllString(rest, " "))); found != "" {
				t.Errorf("%s%s has the time %q in its text", path, query, found)
			}
		}
	}
	if times < 100 {
		t.Errorf("%d times on all pages", times)
	}
	for _, path := range []string{"/api/v1/incidents/" + someDigest, "/incident/" + someDigest + "/card.svg"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if body := w.Body.String(); w.Code != 200 || !strings.Contains(body, "since 05:") || strings.Contains(body, markStart) || strings.Contains(body, "U+FDD") || strings.Contains(body, "<time") {
			t.Errorf("%s: %d %s", path, w.Code, body)
		}
	}
}

// TestForeignMarks puts what looks like parts of marks into texts: they are shown as they are, or are times.
func TestForeignMarks(t *testing.T) {
	at := time.Date(2026, 1, 31, 2, 30, 0, 0, time.UTC)
	full := moment(at)
	for text, want := range map[string]string{
		full:                    `<time datetime="2026-01-31T02:30:00Z">2026-01-31 02:30:00</time>`,
		"a " + full + " " + utc: `a <time datetime="2026-01-31T02:30:00Z">2026-01-31 02:30:00</time> <span class="zone">UTC</span>`,
		"<p title=\"" + full + "\">" + minuteTime.mark(at): `<p title="2026-01-31 02:30:00"><time datetime="2026-01-31T02:30:00Z" data-as="t">02:30</time>`,
		"<title>" + full + "</title>":                      "<title>2026-01-31 02:30:00</title>",
		`<text x="1">` + tickDay.mark(at) + "</text>":      `<text x="1"><tspan data-utc="2026-01-31T02:30:00Z" data-as="a">Jan 31</tspan></text>`,
		markStart + full:   markStart + `<time datetime="2026-01-31T02:30:00Z">2026-01-31 02:30:00</time>`,
		full[:len(full)-1]: full[:len(full)-1],
		markStart + "m" + strings.Repeat("9", 30) + markEnd: markStart + "m" + strings.Repeat("9", 30) + markEnd,
		markStart + "m999999999999999" + markEnd:            markStart + "m999999999999999" + markEnd,
		markStart + "q1" + markEnd:                          markStart + "q1" + markEnd,
		markStart + markEnd:                                 markStart + markEnd,
		markStart + "z1" + markEnd:                          markStart + "z1" + markEnd,
		markStart:                                           markStart,
		moment(time.Time{}):                                 noValue,
	} {
		if got := htmlTimes(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got, want := plainTimes("x "+full+" "+utc), "x 2026-01-31 02:30:00 UTC"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
