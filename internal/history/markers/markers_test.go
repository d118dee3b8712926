package markers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/internal/teststmt"
	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/querylog"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon")) // sqlparser's log
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, o Options) *Store {
	t.Helper()
	o.Log = discard()
	if o.Now == nil {
		o.Now = func() time.Time { return noon }
	}
	s, err := Open(o)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// TestLikeMarkersOutOfOrder expects a marker that stands for several like ones to have the least time and the greatest
// end, in whatever order they are reported.
func TestLikeMarkersOutOfOrder(t *testing.T) {
	s := open(t, Options{})
	for _, m := range []Marker{
		{Time: noon.Add(20 * time.Second), End: noon.Add(9 * time.Minute)},
		{Time: noon, End: noon.Add(time.Second)},
		{Time: noon.Add(30 * time.Second)},
	} {
		m.Kind, m.Title = KindPause, "deploy"
		s.Add(m)
	}
	got := s.Between(noon.Add(8*time.Minute), noon.Add(time.Hour), 10)
	if len(got) != 1 || got[0].Count != 3 || !got[0].Time.Equal(noon) || !got[0].End.Equal(noon.Add(9*time.Minute)) {
		t.Errorf("%+v, want one marker of three from noon for nine minutes", got)
	}
}

// statement returns the record of a statement as created by the gateway.
func statement(typ, sql string) *querylog.Record {
	var d sqldigest.Digester
	r := teststmt.Record(1, time.Second)
	r.Digest = d.Digest([]byte(sql), 0)
	r.Normalized, r.StatementType, r.Start = slices.Clone(d.Text()), typ, noon
	r.Client = netip.MustParseAddrPort("10.0.0.7:41200")
	return r
}

// TestSchemaChanges checks that schema changes become markers with their tables; failed ones, those that were
// only prepared and temporary tables do not.
func TestSchemaChanges(t *testing.T) {
	s := open(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	failed := statement("ddl", "ALTER TABLE failed DROP INDEX k")
	failed.ErrorNumber = 1091
	prepared := statement("ddl", "ALTER TABLE prepared DROP INDEX k")
	prepared.Command = mysqlwire.ComStmtPrepare
	for _, r := range []*querylog.Record{
		failed, prepared, statement("ddl", "CREATE TEMPORARY TABLE t (a int)"), statement("select", "SELECT 1"), statement("multi", "SELECT 1; SELECT 2"),
		statement("ddl", "ALTER TABLE orders DROP INDEX k"), statement("analyze", "ANALYZE TABLE shop.items"),
		statement("multi", "SET @a = 1; DROP TABLE old"), statement("ddl", "ALTER TABLE last ADD x int DEFAULT 7"),
	} {
		s.Observe(r)
	}
	all := func() []Marker { return s.Between(noon.Add(-time.Hour), noon.Add(time.Hour), 100) }
	testwait.Until(t, "the last schema change", func() bool {
		got := all()
		return len(got) > 0 && slices.Equal(got[len(got)-1].Tables, []string{"shop.last"})
	})
	cancel()
	must(t, testwait.Receive(t, "Run's end", done))
	got := all()
	if len(got) != 4 {
		t.Fatalf("%d markers, want 4: %+v", len(got), got)
	}
	for i, want := range []string{"shop.orders", "shop.items", "shop.old", "shop.last"} {
		if !slices.Contains(got[i].Tables, want) {
			t.Errorf("marker %d has the tables %q, want %s", i, got[i].Tables, want)
		}
	}
	m := got[0]
	if m.Kind != KindDDL || got[1].Kind != KindAnalyze || m.By() != "app from 10.0.0.7" || !m.Time.Equal(noon) || !m.End.Equal(noon.Add(time.Second)) || m.ID == 0 {
		t.Errorf("got %+v", m)
	}
	if strings.Contains(got[3].Text, "7") || !strings.Contains(strings.ToLower(got[3].Text), "alter table") {
		t.Errorf("text %q, want it normalized", got[3].Text)
	}
	if bare := m.Textless(); bare.Text != "" || bare.Tables != nil || bare.Title == "" {
		t.Errorf("without texts %+v", bare)
	}
}

// TestSchemaChangesWithoutTexts checks that a schema change has neither text nor tables if texts must not be
// kept.
func TestSchemaChangesWithoutTexts(t *testing.T) {
	s := open(t, Options{NoTexts: true})
	s.Observe(statement("ddl", "ALTER TABLE orders DROP INDEX k"))
	slots, texts := s.ddl.take(nil, nil)
	m, ok := s.schemaChange(&slots[0], texts)
	if !ok || m.Text != "" || m.Tables != nil {
		t.Errorf("got %+v, %t", m, ok)
	}
}

// TestSlotsAreBounded checks that schema changes for which there is no slot are dropped and counted.
func TestSlotsAreBounded(t *testing.T) {
	s := open(t, Options{})
	for range numSlots + 3 {
		s.Observe(statement("ddl", "DROP TABLE a"))
	}
	if got := s.dropped.Load(); got != 3 {
		t.Errorf("%d dropped, want 3", got)
	}
}

// TestLongSchemaChanges checks that a schema change has the tables of its whole text, that a marker's text is bounded and
// says so, and that a text without its end names no tables. All slots keep as much as a marker shows, whatever the others have.
func TestLongSchemaChanges(t *testing.T) {
	s := open(t, Options{})
	lengths := []int{100, maxText - 1, maxText, maxText + 1, 9000, sqldigest.DefaultMaxText, 100}
	for _, n := range lengths {
		const end = " LIKE shop.last"
		r := statement("ddl", "CREATE TABLE t")
		r.Normalized = append(append(r.Normalized, bytes.Repeat([]byte(" "), n-len(r.Normalized)-len(end))...), end...)
		s.Observe(r)
	}
	truncated := statement("ddl", "DROP TABLE a, b")
	truncated.NormalizedCut = true
	s.Observe(truncated)
	for range numSlots - len(lengths) - 1 {
		r := statement("ddl", "DROP TABLE a")
		r.Normalized = append(r.Normalized, bytes.Repeat([]byte(" "), sqldigest.DefaultMaxText-len(r.Normalized))...)
		s.Observe(r)
	}
	slots, texts := s.ddl.take(nil, nil)
	if len(slots) != numSlots || s.dropped.Load() != 0 || len(texts) > slotTexts {
		t.Fatalf("%d slots of %d bytes, %d dropped", len(slots), len(texts), s.dropped.Load())
	}
	for i := range slots {
		text := texts[slots[i].from:slots[i].to]
		m, ok := s.schemaChange(&slots[i], text)
		m = s.complete(m)
		if !ok || len(text) < min(maxText, 14) || len(m.Text) > maxText {
			t.Errorf("slot %d: %d bytes, %+v", i, len(text), m)
		}
		switch whole := !slots[i].cut; {
		case i < len(lengths) && (!whole && lengths[i] < sqldigest.DefaultMaxText || whole && !slices.Contains(m.Tables, "shop.last")):
			t.Errorf("%d bytes: cut %t, tables %q", lengths[i], slots[i].cut, m.Tables)
		case !whole && (m.Tables != nil || !m.TextCut):
			t.Errorf("slot %d: the beginning of a text has the tables %q, text_cut %t", i, m.Tables, m.TextCut)
		case m.TextCut != (!whole || len(text) > maxText && len(bytes.TrimSpace(text)) > maxText) || m.TextCut != strings.HasSuffix(m.Name(), " …"):
			t.Errorf("slot %d of %d bytes: text_cut %t, %q", i, len(text), m.TextCut, m.Name())
		}
	}
	if m := (Marker{Kind: KindLock, Text: "x", TextCut: true}).Textless(); m.TextCut {
		t.Errorf("without texts %+v", m)
	}
}

func TestLikeMarkersMerge(t *testing.T) {
	s := open(t, Options{})
	for i := range 5 {
		s.Add(Marker{Kind: KindDDL, Text: "truncate t", Time: noon.Add(time.Duration(i) * time.Second)})
	}
	s.Add(Marker{Kind: KindDDL, Text: "truncate t", Time: noon.Add(2 * time.Minute)})
	got := s.Between(noon, noon.Add(time.Hour), 10)
	if len(got) != 2 || got[0].Count != 5 || !got[0].End.Equal(noon.Add(4*time.Second)) || got[1].Count != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestBound(t *testing.T) {
	s := open(t, Options{Bytes: 4096})
	for i := range 100 {
		s.Add(Marker{Kind: "deploy", Title: fmt.Sprintf("release %d", i), Time: noon.Add(time.Duration(i) * time.Second)})
	}
	got := s.Between(noon, noon.Add(time.Hour), 1000)
	if s.HeapBytes() > 4096 || len(got) == 0 || got[len(got)-1].Title != "release 99" {
		t.Errorf("%d bytes, %d markers, the last %+v", s.HeapBytes(), len(got), got[len(got)-1])
	}
	if two := s.Between(noon, noon.Add(time.Hour), 2); len(two) != 2 || two[1].Title != "release 99" {
		t.Errorf("the newest two are %+v", two)
	}
}

// TestFile checks that markers survive a restart, that a truncated file loses the line that was being
// written, and that each flipped byte sets the file aside.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	o := Options{Path: filepath.Join(dir, "events.log"), State: localstate.Open(dir, nil, discard()), Bytes: 4096}
	s := open(t, o)
	for i := range 60 { // the file is rewritten meanwhile
		s.Add(Marker{Kind: "deploy", Title: fmt.Sprintf("release %d", i), Time: noon})
	}
	s.Add(Marker{Kind: KindDDL, Text: "drop table t", Time: noon})
	s.Add(Marker{Kind: KindDDL, Text: "drop table t", Time: noon})
	want := s.Between(noon, noon, 1000)
	must(t, s.Close())
	text, err := os.ReadFile(o.Path)
	must(t, err)
	if len(text) > 3*4096 {
		t.Errorf("the file has %d bytes", len(text))
	}
	if got := open(t, o).Between(noon, noon, 1000); !slices.EqualFunc(got, want, func(a, b Marker) bool { return a.ID == b.ID && a.Count == b.Count && a.Title == b.Title }) {
		t.Errorf("after a restart %+v, want %+v", got, want)
	}
	must(t, os.WriteFile(o.Path, text[:len(text)-5], 0o600))
	if got := open(t, o).Between(noon, noon, 1000); len(got) != len(want) || got[len(got)-1].Count != 0 {
		t.Errorf("%d markers of a file whose last line was cut, want %d and the last one not yet counted twice", len(got), len(want))
	}
	text, err = os.ReadFile(o.Path)
	must(t, err)
	rng := testseed.Rand(t)
	losses := len(o.State.Losses())
	for range 20 {
		damaged := slices.Clone(text)
		damaged[rng.IntN(len(damaged))] ^= 1 << rng.IntN(8)
		must(t, os.WriteFile(o.Path, damaged, 0o600))
		if got := open(t, o).Between(noon, noon, 1000); len(got) != 0 {
			t.Fatalf("%d markers of a damaged file", len(got))
		}
	}
	if got := len(o.State.Losses()) - losses; got != 20 {
		t.Errorf("%d losses of 20 were reported", got)
	}
	must(t, os.Remove(o.Path))
	must(t, os.Mkdir(o.Path, 0o700))
	s = open(t, o)
	s.Add(Marker{Kind: "deploy", Title: "release"})
	if got := s.Between(noon, noon, 10); len(got) != 1 {
		t.Errorf("%d markers in memory", len(got))
	}
}

func FuzzParse(f *testing.F) {
	line, err := appendLine(nil, header{Version: 1, Markers: 1})
	must(f, err)
	line, err = appendLine(line, &Marker{ID: 1, Time: noon, End: noon, Kind: KindDDL, Title: "Schema change", Text: "drop table t"})
	must(f, err)
	f.Add(line)
	f.Add([]byte("00000000 {}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer alloctest.Bounded(t, 16<<20)()
		all, err := parse(text)
		if err != nil {
			return
		}
		again, err := appendLine(nil, header{Version: 1, Markers: len(all)})
		must(t, err)
		for i := range all {
			again, err = appendLine(again, &all[i])
			must(t, err)
		}
		same, err := parse(again)
		must(t, err)
		if !slices.EqualFunc(all, same, func(a, b Marker) bool { return a.ID == b.ID && a.Title == b.Title && a.Time.Equal(b.Time) }) {
			t.Errorf("read again %+v, want %+v", same, all)
		}
	})
}

// TestAPI reports events as an operator and reads them as accounts with and without texts.
func TestAPI(t *testing.T) {
	now := noon
	s := open(t, Options{Now: func() time.Time { return now }})
	accounts := filepath.Join(t.TempDir(), "accounts.yaml")
	must(t, os.WriteFile(accounts, []byte("anonymous: {role: viewer, texts: false}\n"), 0o600))
	blind, err := access.NewGate(accounts, discard())
	must(t, err)
	deny := func(w http.ResponseWriter, _ *http.Request, d access.Denial) { w.WriteHeader(d.Status) }
	full := access.NewOpenGate(discard()).Require(access.For(access.Viewer), s.Handler(), deny)
	textless := blind.Require(access.For(access.Viewer), s.Handler(), deny)
	call := func(h http.Handler, method, target, body string) (int, string) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		if method == http.MethodPost {
			r.Header.Set("Content-Type", "application/json")
		}
		h.ServeHTTP(w, r)
		text, err := io.ReadAll(w.Result().Body)
		must(t, err)
		return w.Code, string(text)
	}
	s.Add(Marker{Kind: KindDDL, Title: "Schema change", Text: "alter table secret", Tables: []string{"shop.secret"}, User: "root"})
	if code, body := call(full, "POST", Pattern, `{"title": "shop 4.2", "kind": "deploy", "text": "by CI", "link": "https://ci.example/42"}`); code != 200 || !strings.Contains(body, `"kind":"deploy"`) || !strings.Contains(body, `"user":"anonymous"`) {
		t.Errorf("%d %s", code, body)
	}
	if code, body := call(full, "GET", Pattern, ""); code != 200 || !strings.Contains(body, "alter table secret") || !strings.Contains(body, "shop 4.2") {
		t.Errorf("%d %s", code, body)
	}
	if code, body := call(textless, "GET", Pattern, ""); code != 200 || strings.Contains(body, "secret") || !strings.Contains(body, "Schema change") || !strings.Contains(body, "by CI") {
		t.Errorf("without texts: %d %s", code, body)
	}
	if code, body := call(full, "GET", Pattern+"?from=2026-03-02T00:00:00Z&to=1772500000", ""); code != 200 || body != "{\"events\":[]}\n" {
		t.Errorf("%d %s", code, body)
	}
	for _, c := range []struct {
		body, says string
		code       int
	}{
		{``, "body", 400},
		{`[]`, "body", 400},
		{`{"title": "a"} {}`, "more after", 400},
		{`{"titel": "a"}`, "titel", 400},
		{`{}`, "title", 400},
		{`{"title": "a\nb"}`, "title", 400},
		{`{"title": "a", "kind": "Deploy"}`, "kind", 400},
		{`{"title": "a", "kind": "ddl"}`, "recorded by Tare itself", 400},
		{`{"title": "a", "link": "javascript:alert(1)"}`, "link", 400},
		{`{"title": "a", "time": "2020-01-01T00:00:00Z"}`, "31 days", 400},
		{`{"title": "a", "time": "2026-03-01T11:00:00Z", "end": "2026-03-01T10:00:00Z"}`, "before time", 400},
		{`{"title": "` + strings.Repeat("a", 201) + `"}`, "200", 400},
		{`{"title": "a", "text": "` + strings.Repeat("a", 2049) + `"}`, "2048", 400},
		{`{"title": "` + strings.Repeat("a", 17<<10) + `"}`, "16384", 413},
	} {
		if code, body := call(full, "POST", Pattern, c.body); code != c.code || !strings.Contains(body, c.says) {
			t.Errorf("%.80s: %d %s, want %d with %q", c.body, code, body, c.code, c.says)
		}
	}
	for _, q := range []string{"from=never", "to=x", "limit=0", "limit=1001"} {
		if code, body := call(full, "GET", Pattern+"?"+q, ""); code != 400 || !strings.Contains(body, "want") {
			t.Errorf("%s: %d %s", q, code, body)
		}
	}
	now = now.Add(time.Hour)
	codes := map[int]int{}
	for i := range reportsPerMinute + 5 {
		code, _ := call(full, "POST", Pattern, fmt.Sprintf(`{"title": "event %d"}`, i))
		codes[code]++
	}
	if codes[200] != reportsPerMinute || codes[429] != 5 {
		t.Errorf("responses %v", codes)
	}
	now = now.Add(time.Minute)
	if code, _ := call(full, "POST", Pattern, `{"title": "later"}`); code != 200 {
		t.Errorf("%d a minute later", code)
	}
}

func TestAllocs(t *testing.T) {
	s := open(t, Options{})
	query, change, multi := statement("select", "SELECT 1"), statement("ddl", "ALTER TABLE orders DROP INDEX k"), statement("multi", "SELECT 1; SELECT 2")
	alloctest.Run(t, []alloctest.Case{
		{Name: "Observe a query", Op: func() error { s.Observe(query); return nil }},
		{Name: "Observe several statements", Op: func() error { s.Observe(multi); return nil }},
		{Name: "Observe a schema change", Op: func() error {
			s.ddl.mu.Lock()
			s.ddl.used = 0
			s.ddl.mu.Unlock()
			s.Observe(change)
			if s.ddl.used != 1 {
				return fmt.Errorf("%d slots are used", s.ddl.used)
			}
			return nil
		}},
	})
}
