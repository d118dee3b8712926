package gateway

import "github.com/prometheus/client_golang/prometheus"

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

// collect answers them, where there is a standby.
func (d *routeDescs) collect(s *Server, ch chan<- prometheus.Metric) {
	if s.opts.Standby == nil {
		return
	}
	send := func(d desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d.Desc, d.kind, float64(v), labels...)
	}
	active, _ := s.Active()
	for _, t := range s.targets {
		v := uint64(0)
		if t.side == active {
			v = 1
		}
		send(d.active, v, t.Addr, t.side.String())
	}
	send(d.holds, s.route.switched.Load(), "switched")
	send(d.holds, s.route.abandoned.Load(), "released")
	send(d.moved, s.route.moved.Load())
	send(d.closed, s.route.closed.Load())
	send(d.pinned, uint64(len(s.Pinned())))
	count, sum, buckets := s.route.pauses.read()
	ch <- prometheus.MustNewConstHistogram(d.pause.Desc, count, sum, buckets)
}
