package main

import "github.com/prometheus/client_golang/prometheus"

// A registry is Prometheus' own that also keeps who registered, so that docs/reference/metrics.md can name
// metrics that have no value yet.
type registry struct {
	*prometheus.Registry
	collectors []prometheus.Collector
}

var _ prometheus.Registerer = (*registry)(nil)

func newRegistry() *registry { return &registry{Registry: prometheus.NewRegistry()} }

// Register implements prometheus.Registerer.
func (r *registry) Register(c prometheus.Collector) error {
	if err := r.Registry.Register(c); err != nil {
		return err
	}
	r.collectors = append(r.collectors, c)
	return nil
}

// MustRegister implements prometheus.Registerer.
func (r *registry) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}
