// Package workload generates the traffic of `tare demo`: a few clients that read and write the demo's shop
// through any MySQL address.
//
// Terms: a shape is one action of a client, of one statement or of one transaction; the clients pick shapes
// at random by weight. A provoked error is one that a shape causes deliberately, so that the demo has errors
// to show.
//
//	Run ── client 1..n: pick a shape ── statements over mysqlconn ── counted
//	                                                                   │
//	                              Report, every second and at the end ─┘
//
// Clients do not pause: the rate of statements depends on the server. The package measures no latencies: the
// gateway does.
package workload
