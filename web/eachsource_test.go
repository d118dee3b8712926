package web

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/history/statements"
	"github.com/taredb/tare/internal/web/memory"
	"github.com/taredb/tare/mysql/sqldigest"
)

var errSource = errors.New("the source is gone")

// A failingWorld is a world of which the n-th call fails.
type failingWorld struct {
	*world
	n, calls int
	failed   string // the call
}

func (w *failingWorld) next(call string) error {
	if w.calls++; w.calls == w.n {
		w.failed = call
		return errSource
	}
	return nil
}

func (w *failingWorld) Top(ctx context.Context, q statements.TopQuery) (*statements.Top, error) {
	if err := w.next(fmt.Sprintf("Top %v to %v", q.From, q.To)); err != nil {
		return nil, err
	}
	return w.world.Top(ctx, q)
}

func (w *failingWorld) Statement(ctx context.Context, q statements.StatementQuery) (*statements.Statement, error) {
	if err := w.next(fmt.Sprintf("Statement %v to %v", q.From, q.To)); err != nil {
		return nil, err
	}
	return w.world.Statement(ctx, q)
}

type failingCounts struct {
	worldCounts
	*failingWorld
}

func (c failingCounts) LockWaits(from, to time.Time) ([]serverstats.LockWait, string) {
	return c.worldCounts.LockWaits(from, to)
}

func (c failingCounts) Statement(d sqldigest.Digest, text string) (serverstats.Statement, serverstats.Status, bool) {
	return c.worldCounts.Statement(d, text)
}

func (c failingCounts) Tables(ctx context.Context, names []string) ([]serverstats.Table, error) {
	if err := c.next("Tables"); err != nil {
		return nil, err
	}
	return c.worldCounts.Tables(ctx, names)
}

// TestEachSourceFails has each call of a page to the history and to the server's statistics fail: the page is whole, and it or the log has the error.
func TestEachSourceFails(t *testing.T) {
	c := &scripts[0]
	inner := newWorld(corpusSeed)
	main := inner.statements[0]
	c.play(inner, main)
	inner.record()
	w := &failingWorld{world: inner}
	var logged strings.Builder
	o := testOptions()
	o.Log = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.Statements, o.Markers, o.PlanSource, o.Calls, o.Counts = w, w, w, w, failingCounts{worldCounts{inner}, w}
	o.Now = func() time.Time { return w.time(worldSeconds) }
	o.Attention = Attention{LeastLoad: 0.05, Interval: worldSample * time.Second}
	o.Plans = func(int) memory.Plans {
		return memory.Plans{Largest: []memory.Plan{{Digest: main.digest}}}
	}
	o.Routes = append(o.Routes, NewRoute(access.For(access.Viewer), rangePattern, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"digest":"%x"},"values":[[%d,"1"]]},{"metric":{"digest":"%032x"},"values":[[%[2]d,"1"]]}]}}`,
			main.digest, o.Now().Unix(), 1)
	})))
	get := func(path string) (code int, body string) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Accept", "text/html")
		rec := httptest.NewRecorder()
		New(o).Handler().ServeHTTP(rec, r) // without pages that are kept
		return rec.Code, rec.Body.String()
	}
	digest := hex.EncodeToString(main.digest[:])
	for _, path := range []string{"/", "/queries", "/queries?by=calls&filter=select", "/query/" + digest, "/incident/" + digest, "/plans", "/promql?query=up"} {
		w.n, w.calls = 0, 0
		if code, body := get(path); code != http.StatusOK || !strings.Contains(body, "</html>") || w.calls == 0 {
			t.Errorf("%s: %d after %d calls", path, code, w.calls)
		}
		for n := range w.calls {
			w.n, w.calls = n+1, 0
			logged.Reset()
			code, body := get(path)
			if !strings.Contains(body, "</html>") {
				t.Errorf("%s: call %d fails: %d, the page is cut off", path, n, code)
			}
			if code < 500 && !strings.Contains(strings.ToLower(body), errSource.Error()) && !strings.Contains(logged.String(), errSource.Error()) {
				t.Errorf("%s: call %d (%s) fails: %d without the error", path, n, w.failed, code)
			}
		}
	}
}
