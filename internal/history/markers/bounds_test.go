package markers

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/mysql/sqlplan"
)

// TestOptions has each option that Open refuses, and the defaults of the others.
func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no log": {}, "no state": {Log: discard(), Path: filepath.Join(t.TempDir(), "events.log")}, "a negative bound": {Log: discard(), Bytes: -1},
	} {
		if _, err := Open(o); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	s := open(t, Options{})
	if s.opts.Bytes != DefaultBytes {
		t.Errorf("bound %d", s.opts.Bytes)
	}
	if m := s.Add(Marker{Kind: "deploy", Title: "first"}); m.ID != 1 || !m.Time.Equal(noon) || !m.End.Equal(noon) {
		t.Errorf("%+v", m)
	}
	if m := s.Add(Marker{Kind: "deploy", Title: "second"}); m.ID != 2 {
		t.Errorf("%+v", m)
	}
}

// TestAdded has each added marker passed on, and IDs that increase over a restart.
func TestAdded(t *testing.T) {
	dir := t.TempDir()
	var got []Marker
	o := Options{Path: filepath.Join(dir, "events.log"), State: localstate.Open(dir, nil, discard()), Added: func(m Marker) { got = append(got, m) }}
	s := open(t, o)
	for _, title := range []string{"a", "a", "b"} {
		s.Add(Marker{Kind: "deploy", Title: title})
	}
	must(t, s.Close())
	must(t, s.Close())
	again := open(t, o)
	again.Add(Marker{Kind: "deploy", Title: "c"})
	var text []string
	for _, m := range got {
		text = append(text, fmt.Sprint(m.ID, m.Title, m.Count))
	}
	if want := "1a0 1a2 2b0 3c0"; strings.Join(text, " ") != want {
		t.Errorf("added %v, want %s", text, want)
	}
	if sum := sumBytes(again.Between(noon, noon, 10)); again.HeapBytes() != sum {
		t.Errorf("%d bytes after a restart, want %d", again.HeapBytes(), sum)
	}
}

func sumBytes(all []Marker) (n int64) {
	for i := range all {
		n += all[i].bytes()
	}
	return n
}

// TestBytes has the charge of each field of a marker, the oldest removed as soon as the sum is over the bound, and the newest
// kept whatever its size is.
func TestBytes(t *testing.T) {
	const part = "0123456789"
	if n := (&Marker{}).bytes(); n != 256 {
		t.Errorf("%d bytes of an empty marker", n)
	}
	for i, m := range []Marker{{Kind: part}, {Title: part}, {Text: part}, {Digest: part}, {User: part}, {Client: part}, {Link: part}} {
		if n := m.bytes(); n != 266 {
			t.Errorf("field %d: %d bytes", i, n)
		}
	}
	if n := (&Marker{Tables: []string{part, part}}).bytes(); n != 256+2*(16+10) {
		t.Errorf("%d bytes with two tables", n)
	}
	one := (&Marker{Kind: "deploy", Title: "0"}).bytes()
	for extra, want := range map[int64]string{-1: "34", 0: "234", 1: "234"} {
		s := open(t, Options{Bytes: 3*one + extra})
		var text strings.Builder
		for i := range 5 {
			s.Add(Marker{Kind: "deploy", Title: fmt.Sprint(i)})
		}
		all := s.Between(noon, noon, 10)
		for _, m := range all {
			text.WriteString(m.Title)
		}
		if text.String() != want || s.HeapBytes() != sumBytes(all) {
			t.Errorf("bound %+d: %s of %d bytes, want %s", extra, text.String(), s.HeapBytes(), want)
		}
	}
	s := open(t, Options{Bytes: 1})
	s.Add(Marker{Kind: "deploy", Title: "0"})
	s.Add(Marker{Kind: "deploy", Title: "1"})
	if all := s.Between(noon, noon, 10); len(all) != 1 || all[0].Title != "1" {
		t.Errorf("within a byte: %+v", all)
	}
}

// TestComplete has the times and texts of a marker brought within their bounds.
func TestComplete(t *testing.T) {
	s := open(t, Options{})
	berlin := time.FixedZone("", 3600)
	at := noon.Add(1234567 * time.Nanosecond)
	m := s.complete(Marker{Time: at.In(berlin), End: at.Add(time.Hour).In(berlin)})
	if want := noon.Add(time.Millisecond); m.Time != want || m.End != want.Add(time.Hour) {
		t.Errorf("from %v to %v", m.Time, m.End)
	}
	if m := s.complete(Marker{Time: noon, End: noon.Add(-time.Second)}); m.End != noon {
		t.Errorf("end %v before the start", m.End)
	}
	long := strings.Repeat("a", maxText+1)
	for _, c := range []struct {
		m                 Marker
		title, text, link int
		cut               bool
	}{
		{Marker{Title: long[:maxTitle], Text: long[:maxText], Link: long[:maxLink]}, maxTitle, maxText, maxLink, false},
		{Marker{Title: long, Text: long, Link: long}, maxTitle, maxText, maxLink, true},
		{Marker{Text: "a", TextCut: true}, 0, 1, 0, true},
		{Marker{TextCut: true}, 0, 0, 0, false},
	} {
		if m := s.complete(c.m); len(m.Title) != c.title || len(m.Text) != c.text || len(m.Link) != c.link || m.TextCut != c.cut {
			t.Errorf("title %d, text %d, link %d, cut %t; want %+v", len(m.Title), len(m.Text), len(m.Link), m.TextCut, c)
		}
	}
	for _, c := range []struct {
		text string
		n    int
		want string
	}{{"aé", 3, "aé"}, {"aé", 2, "a"}, {"aéb", 3, "aé"}, {"é", 1, ""}, {"€uro", 2, ""}, {"ab", 0, ""}} {
		if got := cut(c.text, c.n); got != c.want {
			t.Errorf("%d bytes of %q: %q", c.n, c.text, got)
		}
	}
}

// TestBetweenEdges has markers that start or end at the edges of the range.
func TestBetweenEdges(t *testing.T) {
	s := open(t, Options{})
	s.Add(Marker{Kind: "deploy", Title: "x", Time: noon, End: noon.Add(time.Minute)})
	for _, c := range []struct {
		from, to time.Duration
		limit    int
		want     int
	}{
		{0, time.Minute, 1, 1},
		{time.Minute, time.Hour, 1, 1},
		{-time.Hour, 0, 1, 1},
		{-time.Hour, -time.Millisecond, 1, 0},
		{time.Minute + time.Millisecond, time.Hour, 1, 0},
		{time.Second, 2 * time.Second, 1, 1},
		{0, time.Minute, 0, 0},
	} {
		if got := s.Between(noon.Add(c.from), noon.Add(c.to), c.limit); len(got) != c.want {
			t.Errorf("%+v: %d markers", c, len(got))
		}
	}
}

// TestParseList has the defaults, the bounds and the errors of the parameters.
func TestParseList(t *testing.T) {
	day := list{noon.Add(-24 * time.Hour), noon.Add(maxFuture), defaultLimit}
	for text, want := range map[string]list{
		"": day, "from=&to=&limit=": day, "limit=1000": {day.from, day.to, 1000}, "limit=1": {day.from, day.to, 1},
		"from=now-1h&to=now": {noon.Add(-time.Hour), noon, 100}, "from=0&to=1.5": {time.UnixMilli(0), time.UnixMilli(1500), 100},
		"from=2026-01-31T15:04:05.25%2B01:00&to=2026-02-01": {time.Date(2026, 1, 31, 14, 4, 5, 25e7, time.UTC), time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), 100},
	} {
		q, err := url.ParseQuery(text)
		must(t, err)
		if got, err := parseList(q, noon); err != nil || !got.from.Equal(want.from) || !got.to.Equal(want.to) || got.limit != want.limit {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"from=noon": "from: malformed time", "to=now%2B1h": "to: malformed time", "limit=0": "limit: ", "limit=1001": "limit: ", "limit=x": "limit: ",
		"form=0": `unknown parameter "form": want from, to or limit`, "from=0&from=1": "from is given 2 times", "limit=1&limit=": "limit is given 2 times",
	} {
		q, err := url.ParseQuery(text)
		must(t, err)
		if _, err := parseList(q, noon); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestReports has each bound of a reported event on both sides.
func TestReports(t *testing.T) {
	type fields map[string]any
	at := func(d time.Duration) time.Time { return noon.Add(d) }
	const month, ms = 31 * 24 * time.Hour, time.Millisecond
	a := func(n int) string { return strings.Repeat("a", n) }
	for i, c := range []struct {
		f    fields
		says string // "": accepted
	}{
		{fields{"title": a(1)}, ""},
		{fields{"title": a(200)}, ""},
		{fields{"title": a(201)}, "title: "},
		{fields{"title": ""}, "title: "},
		{fields{"title": "a\x1f"}, "title: "},
		{fields{"title": "a b"}, ""},
		{fields{"title": "a\x7e"}, ""},
		{fields{"title": "a\x7f"}, "title: "},
		{fields{"title": "a\uFFFD"}, "title: "},
		{fields{"title": "aé"}, ""},
		{fields{"text": a(2048)}, ""},
		{fields{"text": a(2049)}, "text: want at most 2048 bytes, not 2049"},
		{fields{"text": "two\nlines"}, ""},
		{fields{"kind": a(32)}, ""},
		{fields{"kind": a(33)}, "kind: "},
		{fields{"kind": "az-09"}, ""},
		{fields{"kind": "z"}, ""},
		{fields{"kind": "-a"}, "kind: "},
		{fields{"kind": "0a"}, "kind: "},
		{fields{"kind": "a`"}, "kind: "},
		{fields{"kind": "a{"}, "kind: "},
		{fields{"kind": "a/"}, "kind: "},
		{fields{"kind": "a:"}, "kind: "},
		{fields{"kind": "a_b"}, "kind: "},
		{fields{"kind": "aB"}, "kind: "},
		{fields{"kind": "kill"}, "recorded by Tare itself"},
		{fields{"link": "https://a/"}, ""},
		{fields{"link": "http://a"}, ""},
		{fields{"link": "ftp://a"}, "link: "},
		{fields{"link": "https:a"}, "link: "},
		{fields{"link": "/a"}, "link: "},
		{fields{"link": "http://a b"}, "link: "},
		{fields{"link": "http://" + a(493)}, ""},
		{fields{"link": "http://" + a(494)}, "link: "},
		{fields{"time": at(-month)}, ""},
		{fields{"time": at(-month - ms)}, "time, end: "},
		{fields{"time": at(time.Hour)}, ""},
		{fields{"time": at(time.Hour + ms)}, "time, end: "},
		{fields{"time": at(0), "end": at(time.Hour)}, ""},
		{fields{"time": at(0), "end": at(time.Hour + ms)}, "time, end: "},
		{fields{"time": at(0), "end": at(0)}, ""},
		{fields{"time": at(0), "end": at(-ms)}, "time, end: "},
		{fields{"end": at(time.Minute)}, ""},
		{fields{"end": at(-ms)}, "time, end: "},
	} {
		if _, ok := c.f["title"]; !ok {
			c.f["title"] = "shop 4.2"
		}
		body, err := json.Marshal(c.f)
		must(t, err)
		m, err := parseReport(body, noon)
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%d: %.200s: %v, want %q", i, body, err, c.says)
			}
			continue
		}
		want := Marker{Kind: KindEvent, Time: noon, Title: fmt.Sprint(c.f["title"])}
		if k, ok := c.f["kind"].(string); ok {
			want.Kind = Kind(k)
		}
		want.Text, _ = c.f["text"].(string)
		want.Link, _ = c.f["link"].(string)
		if at, ok := c.f["time"].(time.Time); ok {
			want.Time = at
		}
		if want.End = want.Time; c.f["end"] != nil {
			want.End = c.f["end"].(time.Time)
		}
		if err != nil || fmt.Sprintf("%+v", m) != fmt.Sprintf("%+v", want) {
			t.Errorf("%d: %+v, %v, want %+v", i, m, err, want)
		}
	}
}

// TestListAPI has the default range and number of events, and the headers of responses.
func TestListAPI(t *testing.T) {
	s := open(t, Options{})
	s.Add(Marker{Kind: "before", Title: "x", Time: noon.Add(-24*time.Hour - time.Millisecond)})
	s.Add(Marker{Kind: "first", Title: "x", Time: noon.Add(-24 * time.Hour)})
	s.Add(Marker{Kind: "last", Title: "x", Time: noon.Add(time.Hour)})
	s.Add(Marker{Kind: "after", Title: "x", Time: noon.Add(time.Hour + time.Millisecond)})
	get := func(query string) []Marker {
		t.Helper()
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, Pattern+query, nil))
		var list listResponse
		must(t, json.Unmarshal(w.Body.Bytes(), &list))
		if h := w.Header(); w.Code != 200 || h.Get("Content-Type") != "application/json" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d, %v", query, w.Code, h)
		}
		return list.Events
	}
	if got := get(""); len(got) != 2 || got[0].Kind != "first" || got[1].Kind != "last" {
		t.Errorf("by default %+v", got)
	}
	for i := range maxLimit {
		s.Add(Marker{Kind: "deploy", Title: fmt.Sprint(i)})
	}
	for query, want := range map[string]int{"": 100, "?limit=1": 1, "?limit=101": 101, "?limit=1000": 1000} {
		if got := get(query); len(got) != want {
			t.Errorf("%s: %d events, want %d", query, len(got), want)
		}
	}
	for typ, want := range map[string]int{"": 415, "text/plain": 415, "application/json;": 200, "application/json; charset=utf-8": 200, ";": 415} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, Pattern, strings.NewReader(`{"title": "a"}`))
		r.Header.Set("Content-Type", typ)
		if s.Handler().ServeHTTP(w, r); w.Code != want {
			t.Errorf("content type %q: %d, want %d", typ, w.Code, want)
		}
	}
	s.limit = rateLimit{minute: noon, n: reportsPerMinute}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, Pattern, strings.NewReader(`{"title": "a"}`))
	r.Header.Set("Content-Type", "application/json")
	if s.Handler().ServeHTTP(w, r); w.Code != 429 || w.Header().Get("Retry-After") != "60" {
		t.Errorf("over the limit: %d, %v", w.Code, w.Header())
	}
	for size, want := range map[int]int{maxBody: 400, maxBody + 1: 413} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, Pattern, strings.NewReader(strings.Repeat(" ", size)))
		r.Header.Set("Content-Type", "application/json")
		if s.Handler().ServeHTTP(w, r); w.Code != want {
			t.Errorf("%d bytes: %d, want %d", size, w.Code, want)
		}
	}
}

// TestRateLimit has a new minute, which a clock that is set back starts as well.
func TestRateLimit(t *testing.T) {
	for d, want := range map[time.Duration]bool{0: false, time.Minute - 1: false, time.Minute: true, -1: true} {
		var l rateLimit
		for i := range reportsPerMinute + 1 {
			if got := l.allow(noon); got != (i < reportsPerMinute) {
				t.Fatalf("report %d: %t", i, got)
			}
		}
		if got := l.allow(noon.Add(d)); got != want {
			t.Errorf("%v later: %t", d, got)
		}
	}
}

// TestAborted has a response that cannot be written in the log.
func TestAborted(t *testing.T) {
	var text strings.Builder
	s := open(t, Options{})
	s.opts.Log = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, Pattern, nil))
	if text.Len() > 0 {
		t.Errorf("logged %s", text.String())
	}
	s.Handler().ServeHTTP(gone{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, Pattern, nil))
	if !strings.Contains(text.String(), "response aborted") {
		t.Errorf("logged %q", text.String())
	}
}

type gone struct{ *httptest.ResponseRecorder }

func (gone) Write([]byte) (int, error) { return 0, os.ErrClosed }

// TestMayChangeSchema has each word at the beginning and the end of a text, in either case, and texts that lack a byte of it.
func TestMayChangeSchema(t *testing.T) {
	for _, word := range []string{"alter ", "create ", "drop ", "rename ", "truncate "} {
		for _, text := range []string{word, strings.ToUpper(word), "x" + word, "; " + word + "t"} {
			if !mayChangeSchema([]byte(text)) {
				t.Errorf("not in %q", text)
			}
		}
		for _, text := range []string{word[1:], word[:len(word)-1], "x", "", word[:2] + "_" + word[3:]} {
			if mayChangeSchema([]byte(text)) {
				t.Errorf("in %q", text)
			}
		}
	}
	for n, want := range map[int]uint64{scanned - len("drop "): 1, scanned - len("drop ") + 1: 0} {
		s := open(t, Options{})
		s.ddl.used = numSlots // so that those that are seen are counted as dropped
		r := statement("multi", "SELECT 1")
		r.Normalized = []byte(strings.Repeat(" ", n) + "drop table t")
		if s.Observe(r); s.dropped.Load() != want {
			t.Errorf("after %d bytes: %d", n, s.dropped.Load())
		}
	}
}

// TestObserved has each field of a marker from the record of a statement.
func TestObserved(t *testing.T) {
	s := open(t, Options{})
	empty := statement("ddl", "DROP TABLE t")
	empty.Normalized = nil
	s.Observe(empty)
	local, mapped := statement("ddl", "DROP TABLE t"), statement("analyze", "ANALYZE TABLE t")
	local.Client = netip.AddrPort{}
	mapped.Client = netip.MustParseAddrPort("[::ffff:10.0.0.8]:1")
	mapped.User, mapped.Schema, mapped.Normalized = "ops", "crm", []byte(" analyze table \xff.t ")
	s.Observe(local)
	s.Observe(mapped)
	slots, texts := s.ddl.take(nil, nil)
	if len(slots) != 2 {
		t.Fatalf("%d slots", len(slots))
	}
	if again, text := s.ddl.take(slots, texts); len(again) != 0 || len(text) != 0 {
		t.Errorf("taken twice: %d slots, %d bytes", len(again), len(text))
	}
	for i, want := range []Marker{
		{Time: noon, End: noon.Add(time.Second), Kind: KindDDL, Title: "Schema change", User: "app", Text: "DROP TABLE `t`", Tables: []string{"shop.t"}},
		{Time: noon, End: noon.Add(time.Second), Kind: KindAnalyze, Title: "Table statistics updated", User: "ops", Client: "10.0.0.8", Text: "analyze table \uFFFD.t"},
	} {
		m, ok := s.schemaChange(&slots[i], texts[slots[i].from:slots[i].to])
		if i == 1 {
			m.Tables = nil
		}
		if want.Text = strings.ReplaceAll(want.Text, "`t`", "t"); !ok || !strings.EqualFold(strings.ReplaceAll(m.Text, "`", ""), want.Text) {
			t.Errorf("%d: text %q, want %q", i, m.Text, want.Text)
		}
		m.Text, want.Text = "", ""
		if fmt.Sprintf("%+v", m) != fmt.Sprintf("%+v", want) {
			t.Errorf("%+v, want %+v", m, want)
		}
	}
}

// TestTables has the tables of a statement, each once and a bounded number of them.
func TestTables(t *testing.T) {
	s := open(t, Options{})
	if got := s.TablesOf("", "shop"); got != nil {
		t.Errorf("no text: %q", got)
	}
	if got := s.TablesOf("select * from a join crm.b join a x", "shop"); !slices.Equal(got, []string{"shop.a", "crm.b"}) {
		t.Errorf("%q", got)
	}
	for _, n := range []int{maxTables - 1, maxTables, maxTables + 1} {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprint("t", i))
		}
		p, err := sqlplan.New(sqlplan.Options{CacheBytes: 1 << 20})
		must(t, err)
		if got := tablesOf(planOf(p, []byte("drop table "+strings.Join(names, ", ")), "shop")); len(got) != min(n, maxTables) {
			t.Errorf("%d of %d tables", len(got), n)
		}
	}
}

// TestFileGrowth has the file rewritten as soon as it has more than twice the bound, and not before.
func TestFileGrowth(t *testing.T) {
	dir := t.TempDir()
	o := Options{Path: filepath.Join(dir, "events.log"), State: localstate.Open(dir, nil, discard()), Bytes: 2000}
	s := open(t, o)
	last := int64(0)
	for i := range 100 {
		m := s.Add(Marker{Kind: "deploy", Title: fmt.Sprint(i)})
		line, err := appendLine(nil, &m)
		must(t, err)
		info, err := os.Stat(o.Path)
		must(t, err)
		head, err := appendLine(nil, header{Version: 1, Markers: len(s.all)})
		must(t, err)
		switch grown := last + int64(len(line)); {
		case last > 0 && grown <= 2*o.Bytes && info.Size() != grown:
			t.Fatalf("marker %d: %d bytes, want %d", i, info.Size(), grown)
		case grown > 2*o.Bytes && (info.Size() >= grown || info.Size() < int64(len(head))):
			t.Fatalf("marker %d: %d bytes are not rewritten", i, info.Size())
		}
		if last = info.Size(); s.file.bytes != last {
			t.Fatalf("marker %d: %d bytes are counted, want %d", i, s.file.bytes, last)
		}
	}
	before := s.Between(noon, noon, 100)
	must(t, s.Close())
	if got := open(t, o).Between(noon, noon, 100); len(got) != len(before) {
		t.Errorf("%d markers after a restart, want %d", len(got), len(before))
	}
}

// TestSmallerBound reopens a file that is more than sixteen times as large as the new bound: the newest markers are kept.
func TestSmallerBound(t *testing.T) {
	dir := t.TempDir()
	o := Options{Path: filepath.Join(dir, "events.log"), State: localstate.Open(dir, nil, discard()), Bytes: MinBytes}
	s := open(t, o)
	for i := range 600 {
		s.Add(Marker{Kind: "deploy", Title: fmt.Sprint(i), Text: strings.Repeat("x", 50)})
	}
	must(t, s.Close())
	o.Bytes = 2000
	info, err := os.Stat(o.Path)
	must(t, err)
	if info.Size() <= 16*o.Bytes {
		t.Fatalf("the file has %d bytes alone", info.Size())
	}
	small := open(t, o)
	all := small.Between(time.Time{}, time.Now().Add(time.Hour), 1000)
	if len(o.State.Losses()) != 0 || small.HeapBytes() > o.Bytes || len(all) == 0 || all[len(all)-1].Title != "599" {
		t.Errorf("%+v, %d bytes, %d markers", o.State.Losses(), small.HeapBytes(), len(all))
	}
}

// TestFileFails has each failure of the file: it is reported, and markers are kept in memory.
func TestFileFails(t *testing.T) {
	unencodable := Marker{ID: 1, Kind: "deploy", Title: "x", Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}
	opened := func() (*Store, Options) {
		dir := t.TempDir()
		o := Options{Path: filepath.Join(dir, "events.log"), State: localstate.Open(dir, nil, discard())}
		return open(t, o), o
	}
	failed := func(name string, s *Store, o Options) {
		t.Helper()
		s.Add(Marker{Kind: "deploy", Title: "last"})
		s.Add(Marker{Kind: "deploy", Title: "kept"})
		if n := o.State.Counts()[FilePiece.Name]; n != 1 || s.file.f != nil {
			t.Errorf("%s: %d losses, file %v", name, n, s.file.f)
		}
		if all := s.Between(noon, noon, 10); len(all) == 0 || all[len(all)-1].Title != "kept" {
			t.Errorf("%s: %+v", name, all)
		}
	}
	s, o := opened()
	must(t, s.file.f.Close())
	failed("a file that cannot be written", s, o)

	s, o = opened()
	s.Add(unencodable)
	failed("a marker without JSON", s, o)

	s, o = opened()
	old, err := os.ReadFile(o.Path)
	must(t, err)
	if err := s.rewrite([]Marker{unencodable}); err == nil {
		t.Error("a marker without JSON is written")
	}
	if text, err := os.ReadFile(o.Path); err != nil || string(text) != string(old) {
		t.Errorf("the file was replaced by %q, %v", text, err)
	}

	s, _ = opened()
	must(t, s.file.f.Close())
	if err := s.Close(); err == nil {
		t.Error("Close has no error")
	}
}

// TestRunStops has Run return when its context is done.
func TestRunStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, open(t, Options{}).Run(ctx))
}
