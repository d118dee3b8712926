// Package throttle slows work on MySQL servers down for the sake of their other clients: it polls metrics that are limited (the lag of
// replicas, Threads_running, the result of a statement, the p99 of a gateway), and makes goroutines work for a part of the time.
//
// The throttle is the pure core: readings of the metrics go in, the rate, a fraction of full speed, comes out. The pacer makes
// goroutines obey the rate, through a gate that lets all of them work for a slice and then none. A stream is the pace of changes
// that are applied in order.
package throttle
