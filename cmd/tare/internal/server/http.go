package server

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/taredb/tare/internal/web/memory"
	"github.com/taredb/tare/web"
)

// OpenWeb creates the HTTP server, unless it is off: the service's options are completed by those common to
// all servers. The owners, with the query log and the pages, are the parts whose heap is bounded and counted;
// without any, the heap is not divided. Everything that belongs to the base of the heap must have been
// created before.
func (s *Server) OpenWeb(o web.Options, owners ...memory.Owner) error {
	if s.HTTP == "" {
		return nil
	}
	gate, err := web.NewGate(s.WebConfigFile, s.AccountsFile, s.Log)
	if err != nil {
		return err
	}
	o.Title, o.Gate, o.Log, o.Panics = "tare "+s.Name, gate, s.Log, s.Panics
	o.InFlight = s.inFlight
	s.Metrics.MustRegister(gate)
	o.Hosts, o.ConfigFile, o.Build = s.Hosts(), s.WebConfigFile, s.Build.Prometheus()
	if o.Gatherer == nil {
		o.Gatherer = s.Metrics
	}
	if s.Queries != nil {
		o.QueryLog = s.Queries
	}
	if o.Weight != nil && len(owners) > 0 {
		o.Weight.Heap = func() []memory.OwnerBytes { return s.ledger.ByOwner() }
	}
	s.Web = web.New(o)
	if len(owners) == 0 {
		return nil
	}
	owners = append(slices.Clip(owners), memory.Owner{Name: "pages", Bytes: s.Web.HeapBytes})
	if s.Queries != nil {
		owners = append(owners, memory.Owner{Name: "query_log", Bytes: s.Queries.HeapBytes})
	}
	warm(o.Gatherer)
	s.ledger = memory.NewLedger(owners...)
	s.Metrics.MustRegister(s.ledger)
	return nil
}

// warm collects and prints the metrics once: memory that their code allocates at first use for good belongs to the base.
func warm(g prometheus.Gatherer) {
	families, _ := g.Gather() // errors are for the responses of /metrics
	for _, f := range families {
		_, _ = expfmt.MetricFamilyToText(io.Discard, f)
	}
}

// ServePages serves HTTP, unless it is off, beside work that is not a Service, until the returned function is
// called. The work outlives its HTTP server: an error of the server is logged. The owners are those of OpenWeb.
func (s *Server) ServePages(o web.Options, owners ...memory.Owner) (end func(), err error) {
	if s.HTTP == "" {
		return func() {}, nil
	}
	if err := s.listen(); err != nil { // before OpenWeb, which takes the limit of requests
		return nil, err
	}
	if err := s.OpenWeb(o, owners...); err != nil {
		return func() {}, errors.Join(err, s.HTTPListener.Close())
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.Web.Serve(s.HTTPListener); err != nil {
			s.Log.Error("metrics are no longer served", "error", err)
		}
	})
	s.Log.Info("metrics are served", "http", s.Web.URL(s.HTTPListener.Addr()))
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		_ = s.Web.Shutdown(ctx) // the work has finished
		serving.Wait()
	}, nil
}
