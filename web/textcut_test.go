package web

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/history/markers"
	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/mysql/sqldigest"
)

// cutStatements has statements of which only the beginnings of texts are known.
type cutStatements struct{ Statements }

func (c cutStatements) Top(ctx context.Context, q statements.TopQuery) (*statements.Top, error) {
	top, err := c.Statements.Top(ctx, q)
	if err == nil {
		for i := range top.Rows {
			top.Rows[i].TextCut = true
		}
	}
	return top, err
}

func (c cutStatements) Statement(ctx context.Context, q statements.StatementQuery) (*statements.Statement, error) {
	st, err := c.Statements.Statement(ctx, q)
	if err == nil {
		st.TextCut = true
		for i := range st.Slow {
			st.Slow[i].TextCut = true
		}
	}
	return st, err
}

// TestCutTextsAreMarked cuts the text of each statement, slow call, lock holder, session and event: each response of the API says
// so beside each text, each page in words, and neither does for accounts without texts.
func TestCutTextsAreMarked(t *testing.T) {
	o := testOptions()
	now := time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC)
	o.Now = func() time.Time { return now }
	o.Statements = cutStatements{risingStatements{&fakeStatements{rows: 3}}}
	store, err := markers.Open(markers.Options{Log: o.Log, Now: o.Now})
	if err != nil {
		t.Fatal(err)
	}
	store.Add(markers.Marker{Kind: markers.KindDDL, Title: "Schema change", Text: secretText, TextCut: true, Time: now.Add(-time.Minute)})
	o.Markers = store
	lock := serverstats.LockWait{From: now.Add(-time.Minute), To: now, Kind: serverstats.RowLock, Table: "shop.t", Waiters: 1}
	digest, err := hex.DecodeString(someDigest)
	if err != nil {
		t.Fatal(err)
	}
	lock.Waiting = []sqldigest.Digest{sqldigest.Digest(digest)}
	lock.Holder.Text, lock.Holder.TextCut = secretText, true
	o.Counts = fakeCounts{locks: []serverstats.LockWait{lock}}
	o.Sessions = &SessionSource{Busy: func(int, time.Duration) gateway.Busy {
		s := gateway.SessionInfo{Number: 1, Command: 1, Name: "Query", Text: secretText, TextCut: true, Since: now.Add(-time.Minute), Transaction: now.Add(-time.Minute)}
		return gateway.Busy{At: now, Sessions: []gateway.SessionInfo{s}, Longest: []gateway.SessionInfo{s}}
	}}
	ranking := func(texts bool) statements.HandlerOptions {
		return statements.HandlerOptions{Ranker: o.Statements, Counters: statements.TableReader{}, Log: o.Log, NoTexts: !texts}
	}
	viewer := access.For(access.Viewer)
	o.Routes = append(o.Routes,
		NewRoute(viewer, "GET /api/v1/statements", ByTexts(statements.NewHandler(ranking(true)), statements.NewHandler(ranking(false)))),
		NewRoute(viewer, "GET /api/v1/events", store.Handler()))
	o.Gate = testGate(t, o.Log)
	s := New(o)
	h := s.Handler()
	const span = "?from=2026-01-31T02:00:00Z&to=2026-01-31T03:00:00Z"
	apis, texts := 0, 0
	for _, e := range s.Endpoints() {
		if e.Method != "GET" || !strings.HasPrefix(e.Path, "/api/") {
			continue
		}
		apis++
		path := strings.ReplaceAll(e.Path, "{digest}", someDigest)
		if e.Path != sessionsPath { // which are those of now
			path += span
		}
		for user, sees := range map[string]bool{"dba": true, "guest": false} {
			code, body := requestAs(t, h, user, path)
			var response any
			if err := json.Unmarshal([]byte(body), &response); code != 200 || err != nil {
				t.Errorf("%s as %s: %d %.200s", e.Path, user, code, body)
				continue
			}
			walkJSON(response, func(object map[string]any) {
				text, has := object["text"]
				cut, _ := object["text_cut"].(bool)
				switch {
				case !sees && (has && text != "" || cut):
					t.Errorf("%s: %v for an account without texts", e.Path, object)
				case sees && has != cut:
					t.Errorf("%s: text_cut is %t beside %q", e.Path, cut, text)
				case sees && has:
					texts++
				}
			})
		}
	}
	if apis < 4 || texts < 2+1+3+2 {
		t.Errorf("%d endpoints with %d texts", apis, texts)
	}
	for path, want := range map[string]int{ // of two statements and a schema change; a name, a call, a lock and a schema change; a session twice
		"/": 3, "/queries": 2, "/query/" + someDigest: 4, "/incident/" + someDigest: 4, "/sessions": 2,
	} {
		_, body := browse(t, h, path+span, "dba")
		marks := 0
		for _, mark := range []string{" …", ">cut<", "text cut"} {
			marks += strings.Count(body, mark)
		}
		if marks < want {
			t.Errorf("%s says %d times that a text is cut, want %d", path, marks, want)
		}
	}
}

// walkJSON calls visit with each object of a decoded value.
func walkJSON(v any, visit func(map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		visit(v)
		for _, child := range v {
			walkJSON(child, visit)
		}
	case []any:
		for _, child := range v {
			walkJSON(child, visit)
		}
	}
}
