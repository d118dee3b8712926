package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/history/markers"
	"github.com/taredb/tare/internal/history/stmtseries"
	"github.com/taredb/tare/internal/move/control"
	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/tracing"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/store/promapi"
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
	return append(all, web.NewRoute(viewer, "/api/v1/", api).Fallback(all...)) // its errors are JSON
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

// earliest returns the time before which the history has no samples.
func (h *historyService) earliest() func() (time.Time, bool) {
	if h == nil || h.archive == nil {
		return nil
	}
	return h.archive.Earliest
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

// sessionSource returns the source of sessions for the pages.
func (s *service) sessionSource() *web.SessionSource {
	source := &web.SessionSource{
		Busy: s.gateway.Busy, Kill: s.gateway.Kill,
		Killed: func(account, what string) { s.markers.add(markers.KindKill, what, account) },
	}
	if s.counts != nil {
		source.Blocked = s.counts.Blocked
	}
	return source
}

// Names of the tracers of packages.
const (
	storeTracer    = "github.com/taredb/tare/store/storegateway"
	frontendTracer = "github.com/taredb/tare/fleet/frontend"
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

// A copySearch finds copies and alterations of the gateway's server. It connects for each search and keeps no state.
type copySearch struct {
	backend func() string           // address of the server that clients currently use
	control func() mysqlconn.Config // login there; nil: there is no account
	target  config.ControlURL       // of the recorded ones; no address: none
	through func() leg              // to target
}

// find returns the copies and alterations of this user that run on this machine, if they read or write the gateway's
// server, and those recorded in the target.
func (f *copySearch) find(ctx context.Context) web.Copies {
	ctx, cancel := context.WithTimeout(ctx, copiesTimeout)
	defer cancel()
	var c web.Copies
	problem := func(err error) {
		if err != nil {
			c.Problems = append(c.Problems, err.Error())
		}
	}
	var all []*telemetry.Status
	for _, sockets := range []func() (string, error){control.Dir, alterControlDir} {
		dir, err := sockets()
		if err != nil {
			problem(err)
			break // the second is in the first
		}
		running, err := control.Running(ctx, dir)
		problem(err)
		c.Sockets = append(c.Sockets, dir)
		for _, path := range slices.Sorted(maps.Keys(running)) {
			all = append(all, running[path])
		}
	}
	if f.control != nil && (len(all) > 0 || f.target.Addr != "") {
		var err error
		c.Backend, err = identityOf(ctx, f.control())
		problem(err)
	}
	for _, running := range all {
		if f.isOwn(ctx, &c, running) {
			c.Running = append(c.Running, running)
		}
	}
	if f.target.Addr != "" {
		c.Target = string(f.target.Addr)
		var identity string
		var err error
		c.Jobs, identity, err = jobsOf(ctx, f.through().server(f.target))
		c.TargetIsBackend = identity != "" && identity == c.Backend
		problem(err)
	}
	return c
}

// isOwn reports whether a running copy or alteration is of the gateway's server, by the server's identity, or if one is
// unknown, by its addresses: different names of one server are resolved, but forwarded ports are not known.
func (f *copySearch) isOwn(ctx context.Context, c *web.Copies, running *telemetry.Status) bool {
	if c.Backend != "" && len(running.Servers) > 0 {
		return slices.Contains(running.Servers, c.Backend)
	}
	own := resolve(ctx, f.backend())
	for _, side := range []string{running.From, running.To} {
		for addr := range strings.SplitSeq(side, ",") {
			if slices.ContainsFunc(resolve(ctx, addr), func(a string) bool { return slices.Contains(own, a) }) {
				return true
			}
		}
	}
	return false
}

// resolve returns the addresses of a host and port, or the text if it cannot be resolved.
func resolve(ctx context.Context, addr string) []string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return []string{addr}
	}
	hosts, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return []string{addr}
	}
	for i := range hosts {
		hosts[i] = net.JoinHostPort(hosts[i], port)
	}
	return hosts
}

// identityOf returns the identity of a server.
func identityOf(ctx context.Context, login mysqlconn.Config) (string, error) {
	client, err := session.OpenReader(ctx, login)
	if err != nil {
		return "", err
	}
	identity, err := session.ServerIdentity(ctx, client)
	_ = client.Close() // its responses have been read
	return identity, err
}

func jobsOf(ctx context.Context, target mysqlconn.Config) (jobs []state.Job, identity string, err error) {
	client, err := session.OpenReader(ctx, target)
	if err != nil {
		return nil, "", err
	}
	defer client.Close()
	if jobs, err = state.Jobs(ctx, client, ""); err == nil {
		identity, err = session.ServerIdentity(ctx, client)
	}
	return jobs, identity, err
}
