package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/gateway"
	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/access"
	"github.com/taredb/tare/internal/config"
	"github.com/taredb/tare/internal/governor"
	"github.com/taredb/tare/internal/memory"
	"github.com/taredb/tare/internal/panics"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/sqldigest"
	"github.com/taredb/tare/sqlplan"
	"github.com/taredb/tare/web"
)

// shutdownGrace is how long streams over HTTP may go on once the sessions are over.
const shutdownGrace = 2 * time.Second

// A service is the gateway's parts, put together.
type service struct {
	cfg     config.Serve
	log     *slog.Logger
	options gateway.Options
	backend *backendState
	labels  map[string]string // of the history; nil without a bucket
	bucket  objstore.Bucket   // until the history has it
	planner *sqlplan.Planner
	plans   *memory.PlanCache
	data    *dataDir // nil when nothing is kept
	queries *querylog.Logger
	gateway *gateway.Server

	accounts atomic.Pointer[config.Accounts] // for the standby
	switched atomic.Pointer[savedRoute]      // the last switch; nil: there was none
	active   *activeService                  // nil without HTTP, or digests
	history  *historyService                 // nil when no digests are counted
	web      *web.Server
	idle     *memory.Returner // nil when the runtime alone returns memory
	ledger   *memory.Ledger

	metrics    *registry    // without the history's
	gate       *access.Gate // of HTTP
	panics     *panics.Reporter
	supervisor *supervisor // nil when nobody is to be told

	mysql, http net.Listener // http is nil when it is off
}

// runServe builds the gateway's parts and runs them until ctx is done.
func runServe(ctx context.Context, cfg config.Serve, log *slog.Logger) (err error) {
	s := &service{cfg: cfg, log: log, supervisor: newSupervisor(os.Getenv, os.Getpid(), log)}
	defer func() { err = errors.Join(err, s.supervisor.close()) }()
	if err := s.check(); err != nil {
		return err
	}
	if err := s.listen(); err != nil {
		return err
	}
	if err := s.open(); err != nil {
		return errors.Join(err, s.unlisten())
	}
	if err := s.active.begin(s.mysql.Addr()); err != nil {
		return errors.Join(err, s.unlisten(), s.close(context.Background()))
	}
	defer onSignal(syscall.SIGUSR1, s.reopenLogs)()
	defer onSignal(syscall.SIGHUP, func() { s.supervisor.reload(s.reloadRules) })()

	ctx, stop := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	part := func(run func() error) {
		running.Go(func() {
			if err := run(); err != nil {
				stop(err)
			}
		})
	}
	background, end := context.WithCancel(context.Background())
	if cfg.CPUs > 0 {
		runtime.GOMAXPROCS(cfg.CPUs)
	} else {
		part(func() error { return governor.Run(background) })
	}
	if s.idle != nil {
		part(func() error { return s.idle.Run(background) })
	}
	part(func() error { return s.history.run(background) })
	part(func() error { return s.gateway.Serve(s.mysql) })
	part(func() error { return s.watchBackend(background) })
	part(func() error { return s.supervisor.watch(background, func() { s.gateway.Sessions() }) })
	if s.http != nil {
		part(func() error { return s.web.Serve(s.http) })
	}
	attrs := s.announce()
	part(func() error { return s.awaitReady(background, attrs) })

	<-ctx.Done()
	cause := context.Cause(ctx)
	err = s.shutdown()
	end()
	running.Wait()
	// The history goes last: what the sessions have counted up to their end is in it.
	err = errors.Join(err, s.history.close(), s.data.close())
	if !errors.Is(cause, errInterrupted) && !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	return err
}

// build is check and open.
func (s *service) build() error {
	if err := s.check(); err != nil {
		return err
	}
	return s.open()
}

// check reports wrong options. It opens no file for writing.
func (s *service) check() error {
	rules, err := planRules(s.cfg.Rules, s.cfg.RulesDryRun)
	if err != nil {
		return &usageError{err: err, try: "tare serve --help"}
	}
	s.planner, err = sqlplan.New(sqlplan.Options{CacheBytes: int64(s.cfg.PlanCacheBytes), Rules: rules})
	if err != nil {
		return fmt.Errorf("plan cache: %w", err)
	}
	s.backend = &backendState{}
	s.options = gateway.Options{
		Backend:               gateway.Backend{Addr: string(s.cfg.Backend), TLS: gateway.TLSMode(s.cfg.BackendTLS)},
		Planner:               s.planner,
		MaxConnections:        s.cfg.MaxConnections,
		MaxUserConnections:    s.cfg.MaxUserConnections,
		MaxUnauthenticated:    s.cfg.MaxUnauthenticated,
		MaxUnauthenticatedPer: s.cfg.MaxUnauthenticatedPerAddress,
		ConnectTimeout:        s.cfg.ConnectTimeout,
		HandshakeTimeout:      s.cfg.HandshakeTimeout,
		IdleTimeout:           s.cfg.IdleTimeout,
		DrainTimeout:          s.cfg.DrainTimeout,
		StatementMemory:       int(s.cfg.StatementMemory),
		Diag:                  s.log,
	}
	o := &s.options
	certs, err := loadCertificates(s.cfg)
	if err != nil {
		return err
	}
	o.Certificate, o.ClientCAs, o.Backend.CAs = certs.own, certs.clientCAs, certs.backendCAs
	if s.cfg.ClientTLS != config.ClientTLSAuto {
		o.ClientTLS = gateway.ClientTLSMode(s.cfg.ClientTLS)
	}
	if s.cfg.Control.Addr != "" {
		o.Kill = newKiller(s.cfg.Control, s.cfg.Backend)
		o.Control = &gateway.Account{User: s.cfg.Control.User, Password: s.cfg.Control.Password.Reveal()}
	}
	if s.cfg.Standby != "" {
		if _, err := config.LoadAccounts(s.cfg.StandbyAccounts); err != nil {
			return fmt.Errorf("--standby-%w", err)
		}
	}
	checked := *o
	checked.Log = new(querylog.Logger) // which open creates
	table := (&historyService{cfg: s.cfg.History, log: s.log}).tableOptions(s.cfg.Log.Redact)
	errs := []error{checked.Validate(), checkQueryLog(s.cfg.Log, s.log)}
	if s.cfg.CountsDigests() {
		if err := table.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("--history-max-digests and --history-bytes: %w", err))
		}
	}
	if s.cfg.HTTP != "" {
		s.gate, err = web.NewGate(s.cfg.WebConfigFile, s.cfg.AccountsFile, s.log)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// openBucket opens the history's bucket, before any other file: its URL may name a place that there
// cannot be.
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

// openData opens the data directory where an option needs one, and checks the options against what it
// has of earlier processes.
func (s *service) openData() (err error) {
	switch {
	case s.cfg.History.Enabled() || s.cfg.Standby != "":
		s.data, err = requireDataDir(s.cfg.DataDir, os.Getenv, s.log)
	case s.cfg.Log.File != "":
		s.data, err = openDataDir(s.cfg.DataDir, os.Getenv, s.log)
	}
	if err != nil {
		return err
	}
	return s.setRoute(&s.options)
}

// openHistory opens the history, or the table in memory.
func (s *service) openHistory() (routes []web.Route, err error) {
	if !s.cfg.CountsDigests() {
		return nil, nil
	}
	s.history, err = openHistory(s.cfg.History, s.labels, s.bucket, s.cfg.Log.Redact, s.data, s.log)
	s.bucket = nil // the history's
	if err != nil {
		return nil, err
	}
	s.options.Observers = append(s.options.Observers, s.history.table)
	return s.history.routes(s.panics)
}

// open creates the parts. Damaged files of earlier processes are set aside.
func (s *service) open() error {
	err := s.openBucket()
	if err == nil {
		err = s.openData()
	}
	if err == nil && s.cfg.History.Enabled() {
		series := s.data.file(filepath.Join("history", "series"))
		if s.labels, err = historyLabels(s.cfg.History.Labels, series, s.cfg.Listen); err == nil {
			err = history.CheckLabels(series, s.labels)
		}
	}
	if err == nil {
		s.queries, err = newQueryLog(s.cfg.Log, s.data, s.log)
	}
	if err != nil {
		if s.bucket != nil {
			err = errors.Join(err, s.bucket.Close())
		}
		return errors.Join(err, s.data.close())
	}
	s.options.Log = s.queries
	s.panics = panics.NewReporter(s.log)
	routes, err := s.openHistory()
	if err != nil {
		return errors.Join(err, s.close(context.Background()))
	}
	if s.cfg.HTTP != "" {
		table, labels := s.history.observed()
		if s.active, err = newActiveService(table, labels, s.queries, s.log); err != nil {
			return errors.Join(err, s.close(context.Background()))
		}
		routes = append(routes, s.active.routes()...)
	}
	if s.gateway, err = gateway.New(s.options); err != nil {
		return errors.Join(err, s.close(context.Background()))
	}
	routes = append(routes, s.routeAPI()...)
	s.metrics = s.registry()
	s.metrics.MustRegister(s.panics)
	s.web = web.New(web.Options{
		Title:          "tare serve",
		Now:            s.history.now(),
		Gatherer:       s.gatherer(),
		Ready:          s.checkBackend,
		Live:           func() any { return s.gateway.Live() },
		Plans:          func(n int) memory.Plans { return s.plans.Largest(n) }, // which registry makes
		QueryLog:       s.queries,
		LogColumns:     querylog.RecordColumns(),
		Series:         s.active,
		Copies:         copiesOf(s.cfg.Copies),
		Store:          s.history.status(),
		Weight:         &web.WeightSource{Heap: s.held, Statements: s.gateway.Commands, StatementName: "command", Losses: s.data.losses},
		Routes:         routes,
		Statements:     s.history.statements(),
		SeriesMatchers: s.history.seriesMatchers(),
		Latest:         s.latest,
		Events:         s.events,
		Hosts:          s.cfg.HTTP.Hosts(s.cfg.AllowedHosts),
		ConfigFile:     s.cfg.WebConfigFile,
		Gate:           s.gate,
		Log:            s.log,
		Panics:         s.panics,
	})
	s.ledger = memory.NewLedger(s.heapOwners()...) // last: what is made by now is the base
	s.metrics.MustRegister(s.ledger)
	return nil
}

// gatherer answers for the history too.
func (s *service) gatherer() prometheus.Gatherer {
	if s.history == nil {
		return s.metrics
	}
	return prometheus.Gatherers{s.metrics, s.history.registry}
}

// close gives up what build has made, where the gateway never ran; the log writes what is
// buffered until ctx is done.
func (s *service) close(ctx context.Context) error {
	return errors.Join(s.queries.Close(ctx), s.history.close(), s.data.close())
}

// planRules turns the configured rules into the planner's; with dryRun none of them refuses.
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
		if err := p.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.Place, err))
		}
		out = append(out, p)
	}
	return out, errors.Join(errs...)
}

// unlisten closes the listeners of a service that does not serve.
func (s *service) unlisten() error {
	err := s.mysql.Close()
	if s.http != nil {
		err = errors.Join(err, s.http.Close())
	}
	return err
}

func (s *service) listen() (err error) {
	if s.mysql, err = listen("MySQL clients (--listen)", s.cfg.Listen); err != nil {
		return err
	}
	if s.cfg.HTTP == "" {
		return nil
	}
	if s.http, err = listen("HTTP (--http)", s.cfg.HTTP); err != nil {
		s.mysql.Close()
		return err
	}
	return nil
}

// warnIfInClear logs that other machines reach a listener for MySQL clients that offers no TLS.
func warnIfInClear(log *slog.Logger, at net.Addr, mode config.ClientTLSMode) {
	if addr, ok := at.(*net.TCPAddr); ok && !addr.IP.IsLoopback() && mode == config.ClientTLSOff {
		log.Warn("MySQL listener without TLS is open to other machines: statements, results and some passwords can be intercepted; "+
			"omit --client-tls off", "address", at.String())
	}
}

// announce logs where the gateway listens, and returns the fields.
func (s *service) announce() []any {
	attrs := []any{"listen", s.mysql.Addr().String(), "backend", string(s.cfg.Backend)}
	if s.cfg.Standby != "" {
		side, addr := s.gateway.Active()
		attrs = append(attrs, "standby", string(s.cfg.Standby), "active", side.String(), "route", addr)
	}
	if s.http != nil {
		attrs = append(attrs, "http", "http://"+s.http.Addr().String())
	}
	s.log.Info("listening", attrs...)
	warnIfInClear(s.log, s.mysql.Addr(), s.cfg.ClientTLS)
	s.supervisor.ready(fmt.Sprintf("relays %s to %s", s.mysql.Addr(), s.cfg.Backend))
	return attrs
}

// shutdown ends the parts in the order in which they feed each other.
func (s *service) shutdown() error {
	s.supervisor.stopping()
	s.log.Info("shutting down", "sessions", s.gateway.Sessions(), "drain_timeout", s.cfg.DrainTimeout)
	ended := s.gateway.Shutdown(context.Background())
	grace, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	err := s.queries.Close(grace)
	if s.http != nil {
		err = errors.Join(err, s.web.Shutdown(grace))
	}
	if ended > 0 {
		return errors.Join(err, &partialError{fmt.Errorf("%d sessions did not finish within --drain-timeout %v and were ended", ended, s.cfg.DrainTimeout)})
	}
	return err
}

// ready reports whether the server that sessions go to lets clients log in.
func (s *service) ready(ctx context.Context) error { return s.gateway.Ready(ctx) }

// awaitReady logs that the gateway is ready, once it is.
func (s *service) awaitReady(ctx context.Context, attrs []any) error {
	const longest = 5 * time.Second
	for wait := 100 * time.Millisecond; s.gateway.Ready(ctx) != nil; wait = min(2*wait, longest) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
	if ctx.Err() == nil {
		s.log.Info("gateway is ready", attrs...)
	}
	return nil
}

func (s *service) reopenLogs() {
	if err := s.queries.Reopen(); err != nil {
		s.log.Error("query log not reopened; continuing in the old file", "error", err)
		return
	}
	s.log.Info("query log reopened")
}

func (s *service) reloadRules() {
	s.reloadAccounts()
	s.reloadCertificates()
	fresh, err := s.cfg.ReloadRules()
	if err == nil {
		var rules []sqlplan.Rule
		if rules, err = planRules(fresh, s.cfg.RulesDryRun); err == nil {
			err = s.planner.SetRules(rules)
		}
	}
	if err != nil {
		s.log.Error("the rules stay as they were", "error", err)
		return
	}
	s.log.Info("rules reloaded", "rules", len(fresh))
}

func (s *service) registry() *registry {
	r := newRegistry()
	r.MustRegister(processCollectors()...)
	s.plans = memory.NewPlanCache(s.planner, s.gateway.PlanMisses)
	r.MustRegister(s.gateway.Collector(), s.plans)
	r.MustRegister(newQueryLogCollector(s.queries), lossCollector{s.data}, s.backend)
	if s.cfg.ReturnIdleMemory > 0 {
		s.idle = memory.NewReturner(s.cfg.ReturnIdleMemory, s.gateway.Commands, s.log)
		r.MustRegister(s.idle)
	}
	for _, c := range s.active.collectors() {
		r.MustRegister(c)
	}
	return r
}

// held is who holds the heap now.
func (s *service) held() []memory.Holding { return s.ledger.Holdings() }

// heapOwners are the parts whose heap is bounded and counted.
func (s *service) heapOwners() []memory.Owner {
	owners := []memory.Owner{
		{Name: "plan_cache", Bytes: s.planner.Bytes},
		{Name: "query_log", Bytes: s.queries.HeapBytes},
		{Name: "sessions", Bytes: s.gateway.SessionBytes},
		{Name: "active_series", Bytes: s.active.heapBytes},
		{Name: "relay_buffers", Bytes: func() int64 {
			kept, lent := s.gateway.BufferBytes()
			return kept + lent
		}},
		{Name: "pages", Bytes: s.web.HeapBytes},
	}
	return append(owners, s.history.heapOwners()...)
}
