package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/copier"
	"github.com/taredb/tare/copier/state"
	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/config"
	"github.com/taredb/tare/internal/server"
	"github.com/taredb/tare/internal/tracing"
	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlconn/session"
	"github.com/taredb/tare/promapi"
	"github.com/taredb/tare/stmtseries"
	"github.com/taredb/tare/web"
)

// textlessSeries hides the series with statement texts from accounts without the right to see them.
func textlessSeries(ctx context.Context) []*labels.Matcher {
	if access.SeesTexts(ctx) {
		return nil
	}
	return []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, stmtseries.LabelText, "")}
}

// promRoutes returns the endpoints of Prometheus' API, which creates the spans of its requests. textlessSeries
// withholds texts in labels.
func promRoutes(api *promapi.API) []web.Route {
	viewer := access.For(access.Viewer)
	var all []web.Route
	for _, e := range api.Endpoints() {
		all = append(all, web.NewRoute(viewer, e.Method+" "+e.Path, api).Traced())
	}
	return append(all, web.NewRoute(viewer, "/api/v1/", api).Fallback()) // its errors are JSON
}

// statements returns the source of statements for the pages; nil if digests are not counted.
func (h *historyService) statements() web.Statements {
	if h == nil {
		return nil
	}
	return h.reader
}

// seriesMatchers returns matchers for the labels shared by all series of the history.
func (h *historyService) seriesMatchers() func() []string {
	if h == nil || h.archive == nil {
		return nil
	}
	return h.archive.SeriesMatchers
}

// latest returns the gateway's live metrics.
func (s *service) latest() web.Latest {
	l := s.gateway.Live()
	micros := func(us float64) time.Duration { return time.Duration(us * float64(time.Microsecond)) }
	return web.Latest{
		Seconds: l.Seconds, Statements: l.Statements, Errors: l.Errors, PerSecond: l.PerSecond,
		P50: micros(l.P50), P99: micros(l.P99), P999: micros(l.P999), Sessions: s.gateway.Sessions(),
	}
}

// Names of the tracers of packages.
const (
	storeTracer    = "github.com/taredb/tare/storegateway"
	frontendTracer = "github.com/taredb/tare/frontend"
)

// openTraces starts the export of a server's spans to --traces-otlp. It returns nil if there is no receiver.
func openTraces(ctx context.Context, s *server.Server, url string) (*tracing.Provider, error) {
	if url == "" {
		return nil, nil
	}
	p, err := tracing.Open(ctx, tracing.Options{URL: url, Service: "tare-" + s.Name, Version: thisBuild().Version, Log: s.Log})
	if err != nil {
		return nil, fmt.Errorf("--traces-otlp: %w", err)
	}
	return p, nil
}

// closeTraces exports the last spans.
func closeTraces(p *tracing.Provider, log *slog.Logger) {
	if err := p.Close(); err != nil {
		log.Warn("spans lost", "error", err)
	}
}

// copiesTimeout bounds one search for copies, including connecting.
const copiesTimeout = 5 * time.Second

// copiesOf returns a function that finds copies and alterations: those of this user that run on this machine
// and, if an account on the target is given, those recorded there. It connects for each call and keeps no state.
func copiesOf(target config.ControlURL, through func() leg) func(context.Context) web.Copies {
	return func(ctx context.Context) web.Copies {
		ctx, cancel := context.WithTimeout(ctx, copiesTimeout)
		defer cancel()
		var c web.Copies
		problem := func(err error) {
			if err != nil {
				c.Problems = append(c.Problems, err.Error())
			}
		}
		for _, sockets := range []func() (string, error){copier.ControlDir, alterControlDir} {
			dir, err := sockets()
			if err != nil {
				problem(err)
				break // the second is in the first
			}
			running, err := copier.RunningCopies(ctx, dir)
			problem(err)
			c.Sockets = append(c.Sockets, dir)
			for _, path := range slices.Sorted(maps.Keys(running)) {
				c.Running = append(c.Running, running[path])
			}
		}
		if target.Addr != "" {
			var err error
			c.Target = string(target.Addr)
			c.Jobs, err = jobsOf(ctx, through().server(target))
			problem(err)
		}
		return c
	}
}

func jobsOf(ctx context.Context, target mysqlconn.Config) ([]state.Job, error) {
	client, err := session.OpenReader(ctx, target)
	if err != nil {
		return nil, err
	}
	jobs, err := state.Jobs(ctx, client, "")
	_ = client.Close() // its responses have been read
	return jobs, err
}
