package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/web"
)

// routedService returns a service with a standby, whose sessions were switched to it earlier according to the
// data directory; its gateway does not listen.
func routedService(t *testing.T, at string) *service {
	t.Helper()
	dir := t.TempDir()
	accounts := filepath.Join(dir, "accounts.yaml")
	must(t, os.WriteFile(accounts, []byte("app: secret\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, routeName), []byte(`{"version": 1, "address": "127.0.0.1:3307", "at": "`+at+`"}`), 0o600))
	s := newService(config.Serve{
		Backend: "127.0.0.1:3306", Standby: "127.0.0.1:3307", StandbyAccounts: accounts, Server: config.Server{DataDir: dir},
	}, slog.New(slog.DiscardHandler))
	must(t, s.OpenData("", true))
	must(t, s.OpenQueryLog())
	var err error
	s.planner, err = sqlplan.New(sqlplan.Options{CacheBytes: 1 << 20})
	must(t, err)
	o := gateway.Options{Backend: gateway.Backend{Addr: string(s.cfg.Backend)}, Planner: s.planner, Log: s.Queries, Diag: s.Log}
	must(t, s.setRoute(&o))
	s.gateway, err = gateway.New(o)
	must(t, err)
	t.Cleanup(func() {
		s.gateway.Shutdown(context.Background())
		must(t, server.Close(s))
	})
	return s
}

// TestRouteIsNotForAll checks that only operators can switch sessions; viewers can read the route.
func TestRouteIsNotForAll(t *testing.T) {
	s := routedService(t, "2026-11-01T00:00:00Z")
	h := web.New(web.Options{
		Title: "tare serve", Gatherer: prometheus.NewRegistry(), Log: s.Log, Routes: s.routeAPI(), Gate: testGate(t, s.Log),
	}).Handler()
	for _, c := range []struct {
		method, path, body string
		guest, dba         int
	}{
		{http.MethodGet, "", "", http.StatusOK, http.StatusOK},
		{http.MethodPost, "/hold", `{"for": "30s"}`, http.StatusForbidden, http.StatusOK},
		{http.MethodPost, "/switch", `{"token": "none", "to": "backend"}`, http.StatusForbidden, http.StatusConflict},
		{http.MethodPost, "/release", `{"token": "none"}`, http.StatusForbidden, http.StatusConflict},
	} {
		for user, want := range map[string]int{"guest": c.guest, "": http.StatusUnauthorized, "dba": c.dba} {
			r := httptest.NewRequest(c.method, gateway.RoutePattern+c.path, strings.NewReader(c.body))
			r.Header.Set("Content-Type", "application/json")
			if user != "" {
				r.SetBasicAuth(user, "weight")
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s %s as %q: %d, want %d\n%s", c.method, c.path, user, w.Code, want, w.Body)
			}
		}
	}
	if n := s.gateway.Route().Stage; n != "held" {
		t.Errorf("the stage is %s, want held by dba alone", n)
	}
}

// TestRouteEvents checks that the pages show the last switch, even one before the start, and a pause.
func TestRouteEvents(t *testing.T) {
	s := routedService(t, "2026-11-01T00:00:00Z")
	all := s.events()
	if len(all) != 1 || all[0].Name != "Switched" || all[0].Text != "Sessions were switched to the standby, 127.0.0.1:3307." || all[0].Time.Format(time.DateOnly) != "2026-11-01" {
		t.Fatalf("after a start: %+v", all)
	}
	token, _, err := s.gateway.Pause(t.Context(), 30*time.Second)
	must(t, err)
	if all = s.events(); len(all) != 2 || all[0].Name != "Commands held" || !all[0].Grave || !strings.Contains(all[0].Text, "(held)") {
		t.Errorf("during a hold: %+v", all)
	}
	before := time.Now().Truncate(time.Second)
	_, _, err = s.gateway.Switch(t.Context(), token, switchover.Backend, false)
	must(t, err)
	if all = s.events(); len(all) != 1 || all[0].Text != "Sessions were switched to --backend, 127.0.0.1:3306." || all[0].Time.Before(before) {
		t.Errorf("after a switch: %+v", all)
	}
}

// TestRouteStays writes the route of the side that sessions stay at, after the new route could not be saved:
// it is not recorded as a switch.
func TestRouteStays(t *testing.T) {
	s := routedService(t, "2026-11-01T00:00:00Z")
	saved := func() savedRoute {
		t.Helper()
		r, err := readRoute(s.Data.File(routeName))
		must(t, err)
		return r
	}
	before := saved()
	must(t, s.saveRoute("127.0.0.1:3307"))
	if got := saved(); got != before || len(s.events()) != 1 {
		t.Errorf("it was %+v and is %+v: %+v", before, got, s.events())
	}
	// Sessions that were never switched.
	s.switched.Store(nil)
	must(t, s.saveRoute("127.0.0.1:3306"))
	if got := saved(); got.Address != "127.0.0.1:3306" || !got.At.IsZero() || s.switched.Load() != nil {
		t.Errorf("it is %+v", got)
	}
	must(t, s.setRoute(&gateway.Options{}))
	if s.switched.Load() != nil {
		t.Error("after a restart it is a switch")
	}
	// An unwritable directory leaves the route unchanged.
	must(t, os.Remove(s.Data.File(routeName)))
	must(t, os.Mkdir(s.Data.File(routeName), 0o700))
	if err := s.saveRoute("127.0.0.1:3307"); err == nil || s.switched.Load() != nil {
		t.Errorf("a directory is in the way: %v", err)
	}
}
