package main

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// recheckEvery is the interval between checks of an unreachable backend.
const recheckEvery = 2 * time.Second

var reachableDesc = prometheus.NewDesc("tare_backend_reachable",
	"1 if the last check of the sessions' server succeeded, by /-/ready, and every 2 s while it is 0.", nil, nil)

// A backendState is the result of the last check, for /metrics. The gateway logs its changes.
type backendState struct {
	mu    sync.Mutex
	known bool
	down  bool
}

// set records the result of a check, and reports whether it differs from the one before.
func (b *backendState) set(err error) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	changed = b.known && b.down != (err != nil)
	b.known, b.down = true, err != nil
	return changed
}

func (b *backendState) isDown() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.down
}

// Describe implements prometheus.Collector.
func (b *backendState) Describe(ch chan<- *prometheus.Desc) { ch <- reachableDesc }

// Collect implements prometheus.Collector.
func (b *backendState) Collect(ch chan<- prometheus.Metric) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.known {
		return
	}
	value := 1.0
	if b.down {
		value = 0
	}
	ch <- prometheus.MustNewConstMetric(reachableDesc, prometheus.GaugeValue, value)
}

// checkBackend calls ready and records the result. A check that its caller canceled is not recorded.
func (s *service) checkBackend(ctx context.Context) error {
	err := s.ready(ctx)
	if ctx.Err() == nil && s.backend.set(err) {
		s.markBackend(err != nil)
	}
	return err
}

// watchBackend checks the backend at start, and repeatedly while it is unreachable: a server that is up
// counts a check as an aborted connection.
func (s *service) watchBackend(ctx context.Context) error {
	every := time.NewTicker(recheckEvery)
	defer every.Stop()
	for check := true; ; check = s.backend.isDown() {
		if check {
			_ = s.checkBackend(ctx) // the result is recorded
		}
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}
