package promapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/taredb/tare/store/promapi"
)

// TestEvaluating has more requests compute a response than may: the others wait in their order, further ones are refused, and each is computed in the
// background.
func TestEvaluating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		turn, background := make(chan struct{}), atomic.Int64{}
		targets := []string{"query?query=up&time=1", "series?match[]=up", "labels", "query?query=up&time=2", "label/job/values"}
		api := mustNew(t, promapi.Options{
			Queryable: script{
				set: newSet(storage.NewListSeries(labels.FromStrings("__name__", "up"), []chunks.Sample{sample{t: 1000, f: 3}})),
				ctx: func(ctx context.Context) {
					order = append(order, ctx.Value(tenantKey{}).(string)) // one at a time
					<-turn
				},
			},
			Admit: func(ctx context.Context, r *http.Request) (context.Context, func(), error) {
				return context.WithValue(ctx, tenantKey{}, strings.TrimPrefix(r.URL.RequestURI(), "/api/v1/")), nil, nil
			},
			MaxEvaluating: 1, MaxQueued: len(targets) - 1,
			Background: func(f func()) {
				background.Add(1)
				f()
			},
		})
		var all sync.WaitGroup
		for _, target := range targets {
			all.Go(func() {
				if w := get(api, target); w.Code != http.StatusOK {
					t.Errorf("%s: %d, %s", target, w.Code, w.Body)
				}
			})
			synctest.Wait()
		}
		if w := get(api, "labels"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "1 are running and 4 waiting, try again later") {
			t.Errorf("one too many: %d, %s", w.Code, w.Body)
		}
		if w := get(api, "alerts"); w.Code != http.StatusOK {
			t.Errorf("a response that reads no storage: %d", w.Code)
		}
		for i, target := range targets {
			if len(order) != i+1 || order[i] != target {
				t.Errorf("the storage is read by %q", order)
			}
			turn <- struct{}{}
			synctest.Wait()
		}
		all.Wait()
		if n := int(background.Load()); n != len(targets) {
			t.Errorf("%d responses are computed in the background", n)
		}
		if s := api.Stats(); s != (promapi.GateStats{Refused: 1}) {
			t.Errorf("the queues are left with %+v", s)
		}
	})
}

// A blockedWriter is a response whose client reads nothing until read is closed.
type blockedWriter struct {
	*httptest.ResponseRecorder
	read chan struct{}
}

func (w *blockedWriter) Write(b []byte) (int, error) {
	<-w.read
	return w.ResponseRecorder.Write(b)
}

// TestSlowClientsDoNotEvaluate has a client that reads nothing of a response that is not buffered: another response is computed meanwhile.
func TestSlowClientsDoNotEvaluate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := mustNew(t, promapi.Options{Queryable: script{set: newSet()}, MaxEvaluating: 1, Responses: promapi.NewResponseBudget(0)})
		slow := &blockedWriter{httptest.NewRecorder(), make(chan struct{})}
		var all sync.WaitGroup
		all.Go(func() { api.ServeHTTP(slow, httptest.NewRequest(http.MethodGet, "http://store/api/v1/labels", nil)) })
		synctest.Wait()
		if s := api.Stats(); s.Running != 1 {
			t.Errorf("the slow response does not hold the storage: %+v", s)
		}
		if w := get(api, "labels"); w.Code != http.StatusOK {
			t.Errorf("%d, %s", w.Code, w.Body)
		}
		close(slow.read)
		all.Wait()
		if s := api.Stats(); s != (promapi.GateStats{}) {
			t.Errorf("the queues are left with %+v", s)
		}
	})
}

// TestEvaluationsThatFail has requests fail at each step after they wait: the next one is computed.
func TestEvaluationsThatFail(t *testing.T) {
	failed := errors.New("failed")
	for name, o := range map[string]promapi.Options{
		"admission":  {Queryable: script{set: newSet()}, Admit: func(context.Context, *http.Request) (context.Context, func(), error) { return nil, nil, failed }},
		"storage":    {Queryable: script{set: newSet(), ctx: func(context.Context) { panic("BUG: a panic of a test") }}},
		"background": {Queryable: script{set: newSet()}, Background: func(func()) { panic("BUG: a panic of a test") }},
	} {
		o.MaxEvaluating, o.MaxQueued = 1, 1
		api := mustNew(t, o)
		for range 3 {
			for _, target := range []string{"query?query=up", "series?match[]=up", "labels"} {
				if w := get(api, target); w.Code < 500 {
					t.Errorf("%s, %s: %d, %s", name, target, w.Code, w.Body)
				}
			}
		}
		if s := api.Stats(); s != (promapi.GateStats{}) {
			t.Errorf("%s: the queues are left with %+v", name, s)
		}
	}
}
