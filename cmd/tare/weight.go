package main

import (
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// processCollectors tell what the process itself weighs: its CPU time and memory, and the
// Go runtime's own measures.
func processCollectors() []prometheus.Collector {
	return []prometheus.Collector{
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(
			collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/(cpu/classes|gc/heap|memory/classes|sched/(gomaxprocs|goroutines|latencies))`)},
		)),
		collectors.NewBuildInfoCollector(),
	}
}
