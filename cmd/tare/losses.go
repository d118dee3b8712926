package main

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/web"
)

var lossDesc = prometheus.NewDesc("tare_local_state_lost_total",
	"Pieces of local state in --data-dir that were damaged or missing at the start, and were set aside.", []string{"piece"}, nil)

// A lossCollector exposes how much local state could not be used.
type lossCollector struct{ data *dataDir }

// Describe implements prometheus.Collector.
func (c lossCollector) Describe(ch chan<- *prometheus.Desc) { ch <- lossDesc }

// Collect implements prometheus.Collector.
func (c lossCollector) Collect(ch chan<- prometheus.Metric) {
	if c.data == nil {
		return
	}
	for piece, n := range c.data.state.Counts() {
		ch <- prometheus.MustNewConstMetric(lossDesc, prometheus.CounterValue, float64(n), piece)
	}
}

// lossEvents are the local state that could not be used.
func (s *service) lossEvents() []web.Event {
	var all []web.Event
	for _, l := range s.data.losses() {
		text := fmt.Sprintf("%s: %s. Lost: %s.", l.Path, l.Cause, l.Lost)
		all = append(all, web.Event{Time: l.Time, Name: "Local state lost", Link: "/weight#state", Grave: true, Text: text})
	}
	return all
}
