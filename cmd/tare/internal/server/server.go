package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sync/errgroup"

	"github.com/taredb/tare/cmd/tare/internal/config"
	"github.com/taredb/tare/internal/connlimit"
	"github.com/taredb/tare/internal/panics/report"
	"github.com/taredb/tare/internal/web/memory"
	"github.com/taredb/tare/querylog"
	"github.com/taredb/tare/web"
)

// grace is the time limit for HTTP streams and the query log's sinks after the drain.
const grace = 2 * time.Second

// Options are the properties of a server that Run uses.
type Options struct {
	Name string // of the subcommand, such as "store"
	config.Server
	Build Build
	Log   *slog.Logger

	// Listen is the address of the service's protocol besides HTTP, "" for none; Purpose names it and its
	// option in errors: "queriers (--grpc)".
	Listen  config.Address
	Purpose string

	// MaxConnections bounds the connections of Listen; 0: the service does.
	MaxConnections int

	// DrainHTTP reports whether HTTP requests are the service's work, which is drained. Otherwise pages are
	// served until the drain is over.
	DrainHTTP bool

	// Unit is the name of the work that Drain waits for, for errors: "queries".
	Unit string

	Reload func() // re-reads a part of the configuration on SIGHUP; nil: SIGHUP has its default effect
	Alive  func() // returns unless the service hangs: called before each watchdog message
}

// A Server is the common part of all services. A [Service] embeds it.
type Server struct {
	Options
	Metrics *Registry
	Panics  *report.Reporter
	Data    *DataDir         // nil if there is none
	Queries *querylog.Logger // nil before OpenQueryLog
	Web     *web.Server      // nil before OpenWeb, and if HTTP is off

	// Listener is the protocol's listener; nil if it is off, like HTTPListener.
	Listener, HTTPListener net.Listener

	inFlight *connlimit.Limit // of HTTP requests; nil if HTTP is off

	reloading sync.Mutex

	ledger *memory.Ledger // nil before OpenWeb
	parts  []func(context.Context) error
}

// A Service is the part of the lifecycle that differs between subcommands. Its struct embeds *[Server].
type Service interface {
	base() *Server

	// Check reports wrong options. It opens no file for writing.
	Check() error

	// Open creates the parts. Close is called afterwards even if it fails.
	Open(ctx context.Context) error

	// Announce logs that the service listens. It returns the status line for systemctl status.
	Announce() (status string)

	// Drain stops accepting work and waits for the running work until ctx is done. It returns the number of
	// units of work that were left and have been terminated.
	Drain(ctx context.Context) (left int)

	// Close closes what Open has created.
	Close() error
}

// A DrainError reports work that was terminated because it did not finish within --drain-timeout.
type DrainError struct {
	Left    int
	Unit    string
	Timeout time.Duration
}

// Error implements error.
func (e *DrainError) Error() string {
	return fmt.Sprintf("%d %s did not finish within --drain-timeout %v and were ended", e.Left, e.Unit, e.Timeout)
}

// New returns a Server without opening anything.
func New(o Options) *Server {
	s := &Server{Options: o, Metrics: NewRegistry(), Panics: report.New(o.Log)}
	s.Metrics.MustRegister(s.Panics)
	return s
}

func (s *Server) base() *Server { return s }

// Go adds a part. Its context is canceled when the drain is over. If a part fails, the server stops.
func (s *Server) Go(part func(context.Context) error) { s.parts = append(s.parts, part) }

// Run opens a service, serves until ctx is done or a part fails, drains it, and closes it.
func Run(ctx context.Context, svc Service) error {
	s := svc.base()
	if err := Open(ctx, svc); err != nil {
		return err
	}
	defer onSignal(syscall.SIGUSR1, s.reopenLog)()
	if s.Reload != nil {
		defer onSignal(syscall.SIGHUP, func() { s.NotifyReload(s.Reload) })()
	}
	status := svc.Announce()
	running, failed := errgroup.WithContext(ctx)
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	for _, part := range s.parts {
		running.Go(func() error { return part(background) })
	}
	if s.Web != nil {
		running.Go(func() error { return s.Web.Serve(s.HTTPListener) })
	}
	running.Go(func() error { return s.watchdog(background) })
	s.notify(daemon.SdNotifyReady + "\nSTATUS=" + status)

	<-failed.Done()
	err := s.drain(svc)
	end()
	return errors.Join(running.Wait(), err, Close(svc))
}

// Open checks a service's options, listens, and creates its parts. It starts nothing.
func Open(ctx context.Context, svc Service) error {
	s := svc.base()
	if err := s.check(svc); err != nil {
		return err
	}
	if err := s.listen(); err != nil {
		return errors.Join(err, s.close())
	}
	if err := svc.Open(ctx); err != nil {
		return errors.Join(err, Close(svc))
	}
	return nil
}

// Close closes a service after Open.
func Close(svc Service) error { return errors.Join(svc.Close(), svc.base().close()) }

func (s *Server) check(svc Service) error {
	errs := []error{svc.Check(), s.checkQueryLog()}
	if s.HTTP != "" {
		errs = append(errs, web.CheckConfig(s.WebConfigFile, s.AccountsFile))
	}
	return errors.Join(errs...)
}

func (s *Server) listen() (err error) {
	limits := make(map[string]*connlimit.Limit)
	if s.Listen != "" {
		if s.Listener, err = listen(s.Purpose, s.Listen); err != nil {
			return err
		}
		if s.MaxConnections > 0 {
			limits["grpc_connections"] = connlimit.New(share(s.MaxConnections))
			s.Listener = limits["grpc_connections"].Listener(s.Listener)
		}
	}
	if s.HTTP != "" {
		if s.HTTPListener, err = listen("HTTP (--http)", s.HTTP); err != nil {
			return err
		}
		n := s.HTTPFiles()
		if n < s.HTTPConns {
			s.Log.Warn("open files limit is low: fewer HTTP connections are accepted than --http-max-connections",
				"limit", connlimit.OpenFiles(), "accepted", n)
		}
		limits["http_connections"], s.inFlight = connlimit.New(n), connlimit.New(n)
		limits["http_requests"] = s.inFlight
		s.HTTPListener = limits["http_connections"].Listener(s.HTTPListener)
	}
	s.Metrics.MustRegister(connlimit.Collector(limits))
	return nil
}

// HTTPFiles returns the file descriptors that HTTP connections may use.
func (s *Server) HTTPFiles() int {
	if s.HTTP == "" {
		return 0
	}
	return share(s.HTTPConns)
}

// share returns n connections, or fewer so that most of the process's file descriptors are left to others.
func share(n int) int { return max(2, min(n, connlimit.OpenFiles()/8)) }

// listen listens on a TCP address. purpose appears in errors, and names the option with the address.
func listen(purpose string, addr config.Address) (net.Listener, error) {
	l, err := net.Listen("tcp", string(addr))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen for %s: %w: stop the process that listens there or choose another address", purpose, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", purpose, err)
	}
	return l, nil
}

// drain ends the service's work, then the query log, which ends its streams, and HTTP.
func (s *Server) drain(svc Service) error {
	s.notify(daemon.SdNotifyStopping + "\nSTATUS=draining")
	limit, cancel := context.WithTimeout(context.Background(), s.DrainTimeout)
	defer cancel()
	var http errgroup.Group
	if s.DrainHTTP {
		http.Go(func() error { return s.shutdownHTTP(limit) })
	}
	left := svc.Drain(limit)
	limit, cancel = context.WithTimeout(context.Background(), grace)
	defer cancel()
	err := s.Queries.Close(limit)
	if !s.DrainHTTP {
		err = errors.Join(err, s.shutdownHTTP(limit))
	}
	err = errors.Join(err, http.Wait())
	if left > 0 {
		err = errors.Join(err, &DrainError{Left: left, Unit: s.Unit, Timeout: s.DrainTimeout})
	}
	return err
}

func (s *Server) shutdownHTTP(ctx context.Context) error {
	if s.Web == nil {
		return nil
	}
	return s.Web.Shutdown(ctx)
}

// close closes what the Server has opened.
func (s *Server) close() error {
	var err error
	if s.Queries != nil {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		err = s.Queries.Close(ctx)
	}
	for _, l := range []net.Listener{s.Listener, s.HTTPListener} {
		if l != nil {
			if e := l.Close(); !errors.Is(e, net.ErrClosed) {
				err = errors.Join(err, e)
			}
		}
	}
	return errors.Join(err, s.Data.close())
}

// reopenLog starts new files of the query log.
func (s *Server) reopenLog() {
	if err := s.Queries.Reopen(); err != nil {
		s.Log.Error("query log not reopened; continuing in the old file", "error", err)
		return
	}
	s.Log.Info("query log reopened")
}
