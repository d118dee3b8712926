package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/cmd/tare/internal/server"
	"github.com/taredb/tare/fleet/frontend"
	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/connlimit"
	"github.com/taredb/tare/internal/history/calls"
	"github.com/taredb/tare/internal/history/explain"
	"github.com/taredb/tare/internal/history/serverstats"
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/netloop"
	"github.com/taredb/tare/internal/retry"
	"github.com/taredb/tare/internal/tracing"
	"github.com/taredb/tare/internal/web/memory"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/web"
)

// gcPercent is GOGC of tare serve. Statements allocate nothing, so collections are rare anyway; logins take 1 to 4 % more
// CPU than with Go's 100 (docs/operate/sizing.md).
const gcPercent = 50

// A service is the parts of tare serve.
type service struct {
	*server.Server
	cfg      config.Serve
	options  gateway.Options
	backend  *backendState
	labels   map[string]string // of the history; nil without a bucket
	bucket   objstore.Bucket   // until the history takes it over
	planner  *sqlplan.Planner
	rules    []config.Rule              // in force; written by reload
	reloaded atomic.Pointer[web.Reload] // the last one; nil: none yet
	plans    *memory.PlanCache
	gateway  *gateway.Server

	backendCAs atomic.Pointer[x509.CertPool] // nil: the system's; written by a reload
	copiesKey  mysqlconn.ServerKey

	accounts, poolAccounts atomic.Pointer[config.Accounts] // for the standby, and of shared connections
	switched               atomic.Pointer[savedRoute]      // the last switch; nil: none
	active                 *activeService                  // nil without HTTP, or digests
	history                *historyService                 // nil if no digests are counted
	markers                *markerService                  // nil without HTTP
	tags                   *calls.TagCounts                // nil without HTTP
	calls                  *calls.Sample                   // nil without HTTP, or --call-sample-bytes 0
	explain                *explain.Prober                 // nil without --control, HTTP or digests
	counts                 *serverstats.Reader             // the same
	traces                 *tracing.Provider               // nil: none
}

func newService(cfg config.Serve, log *slog.Logger) *service {
	s := &service{cfg: cfg, rules: cfg.Rules, backend: &backendState{}}
	s.Server = server.New(server.Options{
		Name: "serve", Server: cfg.Server, Build: thisBuild(), Log: log,
		Listen: cfg.Listen, Purpose: "MySQL clients (--listen)", Unit: "sessions",
		Reload: func() { s.reload("") }, Alive: func() { s.gateway.Sessions() },
	})
	return s
}

// Check implements server.Service.
func (s *service) Check() error {
	rules, err := planRules(s.cfg.Rules, s.cfg.RulesDryRun)
	if err != nil {
		return &usageError{err: err, try: "tare serve --help"}
	}
	s.planner, err = sqlplan.New(sqlplan.Options{CacheBytes: int64(s.cfg.PlanCacheBytes), Rules: rules})
	if err != nil {
		return fmt.Errorf("plan cache: %w", err)
	}
	s.options = s.cfg.Gateway
	o := &s.options
	o.Backend = gateway.Backend{Addr: string(s.cfg.Backend), TLS: s.cfg.BackendTLS}
	o.Planner, o.Diag = s.planner, s.Log
	o.OpenFiles = connlimit.OpenFiles() - s.HTTPFiles()
	o.DrainTimeout = s.cfg.DrainTimeout
	o.Loops = cmp.Or(o.Loops, netloop.CPUs())
	certs, err := loadCertificates(s.cfg)
	if err != nil {
		return err
	}
	o.Certificate, o.ClientCAs, o.Backend.CAs = certs.own, certs.clientCAs, certs.backendCAs
	s.backendCAs.Store(certs.backendCAs)
	if o.Backend.Key, err = s.cfg.BackendKey.Load(); err != nil {
		return err
	}
	if s.copiesKey, err = s.cfg.CopiesKey.Load(); err != nil {
		return err
	}
	if s.cfg.Control.Addr != "" {
		o.Kill, o.KillQuery = newKiller(s.controlAt, "CONNECTION"), newKiller(s.controlAt, "QUERY")
		o.Control = &gateway.Account{User: s.cfg.Control.User, Password: s.cfg.Control.Password.Reveal(), TLS: s.cfg.ControlTLS}
	}
	if s.cfg.Standby != "" {
		if _, err := config.LoadAccounts(s.cfg.StandbyAccounts); err != nil {
			return fmt.Errorf("--standby-%w", err)
		}
	}
	if s.cfg.Pool == config.PoolTransaction {
		o.Pool = &gateway.PoolOptions{
			Learn: s.cfg.PoolLearn, Max: s.cfg.PoolMax, Min: s.cfg.PoolMin, Depth: s.cfg.PoolDepth, Statements: s.cfg.PoolStatements,
			Lifetime: s.cfg.PoolLifetime, IdleAge: s.cfg.PoolIdle, Wait: s.cfg.PoolWait,
		}
		if s.cfg.PoolAccounts != "" {
			accounts, err := config.LoadAccounts(s.cfg.PoolAccounts)
			if err != nil {
				return fmt.Errorf("--pool-%w", err)
			}
			s.poolAccounts.Store(&accounts)
			o.Pool.Password = passwordIn(&s.poolAccounts)
		}
	}
	checked := *o
	checked.Log = new(querylog.Logger) // a placeholder; open creates it
	table := (&historyService{server: s.Server, cfg: s.cfg.History}).tableOptions()
	errs := []error{checked.Validate()}
	if err := remoteReceiver(s.cfg.History.RemoteWrite).Check(); err != nil {
		errs = append(errs, fmt.Errorf("--history-remote-write: %w", err))
	}
	if s.cfg.CountsDigests() {
		if err := table.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("--history-bytes is too little for --history-max-digests: %w", err))
		}
	}
	return errors.Join(errs...)
}

// openBucket opens the history's bucket before any other file: its URL may be invalid.
func (s *service) openBucket() (err error) {
	if !s.cfg.History.Enabled() {
		return nil
	}
	if err := s.cfg.History.Bucket.Create(); err != nil {
		return err
	}
	s.bucket, err = s.cfg.History.Bucket.Open()
	return err
}

// openData opens the data directory if an option requires one, and checks the options against its content.
func (s *service) openData() error {
	required := s.cfg.History.Enabled() || s.cfg.Standby != ""
	if required || s.cfg.Log.Sink.Path != "" {
		if err := s.OpenData("", required); err != nil {
			return err
		}
	}
	return s.setRoute(&s.options)
}

// openHistory opens the history, or the table in memory.
func (s *service) openHistory() (routes []web.Route, err error) {
	if !s.cfg.CountsDigests() {
		return nil, nil
	}
	s.history, err = openHistory(s.Server, s.cfg.History, s.labels, s.bucket, s.tags)
	s.bucket = nil // owned by the history
	if err != nil {
		return nil, err
	}
	s.options.Observers = append(s.options.Observers, s.history.table)
	s.watchRises()
	if s.traces == nil {
		return s.history.routes(nil)
	}
	return s.history.routes(storegateway.NewSpans(s.traces.Tracer(storeTracer)))
}

// Open implements server.Service. Damaged files of earlier processes are set aside.
func (s *service) Open(ctx context.Context) (err error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if err := s.openBucket(); err != nil {
		return err
	}
	if err := s.openData(); err != nil {
		return err
	}
	if s.cfg.History.Enabled() {
		series := s.Data.File(filepath.Join("history", "series"))
		if s.labels, err = historyLabels(s.cfg.History.Archive.Labels, series, s.cfg.Listen); err == nil {
			err = history.CheckLabels(series, s.labels)
		}
		if err != nil {
			return err
		}
	}
	if err := s.OpenQueryLog(); err != nil {
		return err
	}
	s.options.Log = s.Queries
	if s.traces, err = openTraces(ctx, s.Server, s.cfg.TracesURL); err != nil {
		return err
	}
	if err := s.openTags(); err != nil {
		return err
	}
	routes, err := s.openHistory()
	if err != nil {
		return err
	}
	if s.cfg.HTTP != "" {
		s.cfg.Events.Added = s.schemaChanged
		if s.markers, err = openMarkers(s.Server, s.cfg.Events); err != nil {
			return err
		}
		s.options.Observers = append(s.options.Observers, s.markers.store)
		routes = append(routes, s.markers.routes()...)
		if err := errors.Join(s.openExplain(), s.openServerCounts(), s.openCalls()); err != nil {
			return err
		}
		table, labels := s.history.observed()
		var spans *frontend.Spans
		if s.traces != nil {
			spans = frontend.NewSpans(s.traces.Tracer(frontendTracer))
		}
		if s.active, err = newActiveService(table, labels, spans, s.Queries, s.Log); err == nil {
			err = s.active.begin(s.Listener.Addr())
		}
		if err != nil {
			return err
		}
		routes = append(routes, s.active.routes()...)
	}
	if s.gateway, err = gateway.New(s.options); err != nil {
		return err
	}
	if s.history != nil {
		s.history.inFlight = s.gateway.InFlight
	}
	s.register()
	s.addParts()
	return s.OpenWeb(web.Options{
		Now:            s.history.now(),
		Gatherer:       s.gatherer(),
		Ready:          s.checkBackend,
		Live:           func() any { return s.gateway.Live() },
		Plans:          s.plans.Largest,
		PlanTables:     s.plans.AddTables,
		LogColumns:     querylog.RecordColumns(),
		Series:         s.active,
		Copies:         s.copySearch().find,
		Store:          s.history.status(),
		Weight:         &web.WeightSource{Statements: s.gateway.Commands, StatementName: "command", Losses: s.Data.Losses, Reload: s.reloaded.Load},
		Routes:         append(append(routes, s.routeAPI()...), s.reloadRoute()),
		Statements:     s.history.statements(),
		SeriesMatchers: s.history.seriesMatchers(),
		Earliest:       s.history.earliest(),
		Tags:           s.historyTags(),
		Latest:         s.latest,
		Attention:      s.attention(),
		Markers:        s.markers.source(),
		PlanSource:     s.planSource(),
		Counts:         s.countSource(),
		Calls:          s.callSource(),
		Events:         s.events,
		Sessions:       s.sessionSource(),
		Traces:         s.traces,
	}, s.heapOwners()...)
}

// copySearch returns the search for copies of the sessions' server.
func (s *service) copySearch() *copySearch {
	f := &copySearch{backend: s.activeAddr, target: s.cfg.Copies, through: s.copiesLeg}
	if s.cfg.Control.Addr != "" {
		f.control = s.controlLogin
	}
	return f
}

// copiesLeg returns how the connection to the target of --copies is protected.
func (s *service) copiesLeg() leg {
	return leg{mode: s.cfg.SideTLS(s.cfg.CopiesTLS), authorities: s.backendCAs.Load(), key: s.copiesKey}
}

// addParts adds the parts that run until the drain is over.
func (s *service) addParts() {
	s.Go(s.history.run)
	s.Go(s.markers.run)
	s.Go(func(context.Context) error { return s.gateway.Serve(s.Listener) })
	s.Go(s.watchBackend)
	s.Go(s.awaitReady)
}

// gatherer returns the metrics of the server and of the history.
func (s *service) gatherer() prometheus.Gatherer {
	if s.history == nil {
		return s.Metrics
	}
	return prometheus.Gatherers{s.Metrics, s.history.registry}
}

// Close implements server.Service. The history includes the statements of the sessions up to their end.
func (s *service) Close() error {
	var err error
	if s.bucket != nil {
		err = s.bucket.Close()
	}
	err = errors.Join(err, s.markers.close(), s.history.close())
	closeTraces(s.traces, s.Log)
	return err
}

// planRules converts the configured rules to the planner's; with dryRun none of them refuses.
func planRules(rules []config.Rule, dryRun bool) ([]sqlplan.Rule, error) {
	var out []sqlplan.Rule
	var errs []error
	for _, r := range rules {
		p := sqlplan.Rule{Name: r.Name, Tables: r.Tables, Users: r.Users, Message: r.Message, DryRun: dryRun || r.Mode == config.RuleDryRun}
		var err error
		bad := func(err error) { errs = append(errs, fmt.Errorf("%s: rule %q: %w", r.Place, r.Name, err)) }
		if p.Action, err = sqlplan.ParseAction(string(r.Action)); err != nil {
			bad(err)
		}
		for _, text := range r.Digests {
			d, err := sqldigest.Parse(text)
			if err != nil {
				bad(err)
			}
			p.Digests = append(p.Digests, d)
		}
		for _, text := range r.Types {
			t, err := sqlplan.ParseType(text)
			if err != nil {
				bad(err)
			}
			p.Types = append(p.Types, t)
		}
		for _, text := range r.Effects {
			e, err := sqlplan.ParseEffect(text)
			if err != nil {
				bad(err)
			}
			p.Effects = append(p.Effects, e)
		}
		if err := p.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.Place, err))
		}
		out = append(out, p)
	}
	return out, errors.Join(errs...)
}

// warnIfInClear logs a warning if other machines can reach a listener for MySQL clients without TLS.
func warnIfInClear(log *slog.Logger, at net.Addr, mode gateway.ClientTLSMode) {
	if addr, ok := at.(*net.TCPAddr); ok && !addr.IP.IsLoopback() && mode == gateway.ClientTLSOff {
		log.Warn("MySQL listener without TLS is open to other machines: statements, results and some passwords can be intercepted; "+
			"omit --client-tls off", "address", at.String())
	}
}

// Announce implements server.Service.
func (s *service) Announce() (status string) {
	s.Log.Info("listening", s.addresses()...)
	warnIfInClear(s.Log, s.Listener.Addr(), s.cfg.Gateway.ClientTLS)
	return fmt.Sprintf("relays %s to %s", s.Listener.Addr(), s.cfg.Backend)
}

// addresses returns the fields of the gateway's addresses in the log.
func (s *service) addresses() []any {
	attrs := []any{"listen", s.Listener.Addr().String(), "backend", string(s.cfg.Backend)}
	if s.cfg.Standby != "" {
		side, addr := s.gateway.Active()
		attrs = append(attrs, "standby", string(s.cfg.Standby), "active", side.String(), "route", addr)
	}
	if s.HTTPListener != nil {
		attrs = append(attrs, "http", s.Web.URL(s.HTTPListener.Addr()))
	}
	return attrs
}

// Drain implements server.Service. The gateway's options include the time limit.
func (s *service) Drain(context.Context) (left int) {
	s.Log.Info("shutting down", "sessions", s.gateway.Sessions(), "drain_timeout", s.cfg.DrainTimeout)
	return s.gateway.Shutdown(context.Background())
}

// ready reports whether the sessions' server lets clients log in.
func (s *service) ready(ctx context.Context) error { return s.gateway.Ready(ctx) }

// awaitReady waits until the gateway is ready and logs that.
func (s *service) awaitReady(ctx context.Context) error {
	attrs := s.addresses()
	err := retry.Policy{First: 100 * time.Millisecond, Most: 5 * time.Second}.Do(ctx, func() error { return s.gateway.Ready(ctx) })
	if err == nil && ctx.Err() == nil {
		s.Log.Info("gateway is ready", attrs...)
	}
	return nil
}

// register registers the metrics of the parts.
func (s *service) register() {
	s.plans = memory.NewPlanCache(s.planner, s.gateway.PlanMisses)
	s.Metrics.MustRegister(s.gateway.Collector(), s.plans, s.Data, s.backend)
	s.Metrics.MustRegister(s.active.collectors()...)
	if s.markers != nil {
		s.Metrics.MustRegister(s.markers.store)
	}
	if s.cfg.ReturnIdleMemory > 0 {
		idle := memory.NewReturner(s.cfg.ReturnIdleMemory, s.gateway.Commands, s.Log)
		s.Metrics.MustRegister(idle)
		s.Go(idle.Run)
	}
}

// heapOwners returns the parts whose heap is bounded and counted.
func (s *service) heapOwners() []memory.Owner {
	owners := []memory.Owner{
		{Name: "plan_cache", Bytes: s.planner.Bytes},
		{Name: "sessions", Bytes: s.gateway.SessionBytes},
		{Name: "active_series", Bytes: s.active.heapBytes},
		{Name: "events", Bytes: s.markers.heapBytes},
		{Name: "explain", Bytes: s.explainBytes},
		{Name: "server_counts", Bytes: s.countBytes},
		{Name: "call_sample", Bytes: s.callBytes},
		{Name: "relay_buffers", Bytes: func() int64 {
			kept, lent := s.gateway.BufferBytes()
			return kept + lent
		}},
	}
	return append(owners, s.history.heapOwners()...)
}
