package connlimit

import "github.com/prometheus/client_golang/prometheus"

// A collector exposes the counts of Limits.
type collector struct {
	limits             map[string]*Limit
	open, max, refused *prometheus.Desc
}

// Collector returns a collector of the counts of limits, by the value of the label "of".
func Collector(limits map[string]*Limit) prometheus.Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("tare_listener_"+name, help, []string{"of"}, nil)
	}
	return &collector{
		limits:  limits,
		open:    desc("open", "Open connections and requests in flight, of HTTP or gRPC."),
		max:     desc("limit", "Limit of open connections and requests in flight."),
		refused: desc("refused_total", "Connections closed and requests refused with 503, because a limit was reached."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.open
	ch <- c.max
	ch <- c.refused
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	for of, l := range c.limits {
		s := l.Stats()
		ch <- prometheus.MustNewConstMetric(c.open, prometheus.GaugeValue, float64(s.Open), of)
		ch <- prometheus.MustNewConstMetric(c.max, prometheus.GaugeValue, float64(s.Total), of)
		ch <- prometheus.MustNewConstMetric(c.refused, prometheus.CounterValue, float64(s.Refused), of)
	}
}
