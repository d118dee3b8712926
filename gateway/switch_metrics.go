package gateway

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taredb/tare/gateway/switchover"
)

// routeDescs are the metrics of the route.
type routeDescs struct {
	active, holds, pause, moved, closed, pinned desc
}

func newRouteDescs() routeDescs {
	return routeDescs{
		active: gauge("tare_route", "1 for the server of new sessions, 0 for the other one.", "backend", "side"),
		holds:  counter("tare_route_holds_total", "Pauses for a switch, by outcome.", "outcome"),
		pause: desc{Desc: prometheus.NewDesc("tare_route_hold_seconds",
			"How long commands were paused for a switch.", nil, nil)},
		moved:  counter("tare_route_sessions_moved_total", "Sessions switched to another server."),
		closed: counter("tare_route_sessions_closed_total", "Sessions closed because they could not be switched to another server."),
		pinned: gauge("tare_route_sessions_pinned", "Sessions that cannot be switched: a switch would have to close them."),
	}
}

// collect sends them if there is a standby.
func (d *routeDescs) collect(w *switcher, ch chan<- prometheus.Metric) {
	if !w.enabled() {
		return
	}
	send := func(d desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d.Desc, d.kind, float64(v), labels...)
	}
	active, _ := w.Active()
	for side, addr := range w.addrs {
		v := uint64(0)
		if switchover.Side(side) == active {
			v = 1
		}
		send(d.active, v, addr, switchover.Side(side).String())
	}
	send(d.holds, w.switched.Load(), "switched")
	send(d.holds, w.abandoned.Load(), "released")
	send(d.moved, w.moved.Load())
	send(d.closed, w.closed.Load())
	send(d.pinned, uint64(len(w.Pinned())))
	count, sum, buckets := w.pauses.read()
	ch <- prometheus.MustNewConstHistogram(d.pause.Desc, count, sum, buckets)
}

// pauseBounds are the upper bounds of the histogram of pauses, in seconds.
var pauseBounds = [...]float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

// pauses counts the durations of pauses.
type pauses struct {
	buckets [len(pauseBounds) + 1]atomic.Uint64
	nanos   atomic.Uint64
}

func (p *pauses) add(d time.Duration) {
	i := 0
	for i < len(pauseBounds) && d.Seconds() > pauseBounds[i] {
		i++
	}
	p.buckets[i].Add(1)
	p.nanos.Add(uint64(max(d, 0)))
}

// read returns the histogram in Prometheus' form.
func (p *pauses) read() (count uint64, sum float64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(pauseBounds))
	for i, bound := range pauseBounds {
		count += p.buckets[i].Load()
		buckets[bound] = count
	}
	count += p.buckets[len(pauseBounds)].Load()
	return count, float64(p.nanos.Load()) / float64(time.Second), buckets
}
