// Package workqueue has the metrics of client-go's queues, of which there are none here.
package workqueue

type (
	// A GaugeMetric is a number that increases and decreases by one.
	GaugeMetric interface {
		Inc()
		Dec()
	}
	// A SettableGaugeMetric is a number.
	SettableGaugeMetric interface{ Set(v float64) }
	// A CounterMetric is a number that increases.
	CounterMetric interface{ Inc() }
	// A HistogramMetric receives numbers.
	HistogramMetric interface{ Observe(v float64) }
)

// A MetricsProvider has the metrics of each queue by its name.
type MetricsProvider interface {
	NewDepthMetric(name string) GaugeMetric
	NewAddsMetric(name string) CounterMetric
	NewLatencyMetric(name string) HistogramMetric
	NewWorkDurationMetric(name string) HistogramMetric
	NewUnfinishedWorkSecondsMetric(name string) SettableGaugeMetric
	NewLongestRunningProcessorSecondsMetric(name string) SettableGaugeMetric
	NewRetriesMetric(name string) CounterMetric
}

// SetProvider has no effect.
func SetProvider(MetricsProvider) {}
