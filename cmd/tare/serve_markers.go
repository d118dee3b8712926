package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/history/markers"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/web"
)

// markersName is the file of events in the data directory.
const markersName = "events.log"

// A markerService records events around the statements. A nil one does nothing.
type markerService struct {
	store *markers.Store
}

// openMarkers opens the events, with the file of earlier processes if there is a data directory. It completes the options.
func openMarkers(s *server.Server, o markers.Options) (*markerService, error) {
	o.Path, o.NoTexts, o.Log = s.Data.File(markersName), s.Options.Server.Log.Redact == querylog.RedactAll, s.Log
	if s.Data != nil {
		o.State = s.Data.State
	}
	store, err := markers.Open(o)
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	m := &markerService{store: store}
	m.add(markers.KindRestart, "Gateway started: tare "+s.Build.Version, "")
	return m, nil
}

// add records an event of this moment, by an HTTP account if it has a name.
func (m *markerService) add(kind markers.Kind, title, account string) {
	if m != nil {
		m.store.Add(markers.Marker{Kind: kind, Title: title, User: account})
	}
}

// source returns the source of markers for the pages.
func (m *markerService) source() web.MarkerSource {
	if m == nil {
		return nil
	}
	return m.store
}

func (m *markerService) run(ctx context.Context) error {
	if m == nil {
		return nil
	}
	return m.store.Run(ctx)
}

func (m *markerService) heapBytes() int64 {
	if m == nil {
		return 0
	}
	return m.store.HeapBytes()
}

func (m *markerService) close() error {
	if m == nil {
		return nil
	}
	return m.store.Close()
}

// routes returns the API of events.
func (m *markerService) routes() []web.Route {
	if m == nil {
		return nil
	}
	h := m.store.Handler()
	return []web.Route{
		web.NewRoute(access.For(access.Viewer), "GET "+markers.Pattern, h).
			Listed(markers.Pattern, "schema changes, switches, restarts and reported events of the last day"),
		web.NewRoute(access.For(access.Operator).Changing(), "POST "+markers.Pattern, h),
	}
}

// marked records successful calls that pause or switch clients.
func (s *service) marked(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sw := &access.StatusWriter{ResponseWriter: w}
		h.ServeHTTP(sw, r)
		sw.Returned()
		if sw.Status() != http.StatusOK {
			return
		}
		account := access.Of(r.Context()).Name
		switch call := strings.TrimPrefix(r.URL.Path, gateway.RoutePattern+"/"); call {
		case "hold":
			s.markers.add(markers.KindPause, "Clients paused", account)
		case "switch":
			side, addr := s.gateway.Active()
			s.markers.add(markers.KindSwitch, fmt.Sprintf("Clients switched to the %s, %s", side, addr), account)
		}
	})
}

// markBackend records that the backend became unreachable, or reachable again.
func (s *service) markBackend(down bool) {
	title := "Backend reachable again"
	if down {
		title = "Backend unreachable"
	}
	s.markers.add(markers.KindBackend, title, "")
}
