// Package workload is the traffic of `tare demo`: a few clients that read and write the
// demo's shop through whatever MySQL address they are given.
//
// Terms: a shape is one thing a client does, of one statement or of one transaction; the
// clients pick shapes at random by weight. A provoked error is one that a shape asks for,
// so that the demo has errors to show.
//
//	Run ── client 1..n: pick a shape ── statements over database/sql ── counted
//	                                                                      │
//	                                 Report, every second and at the end ─┘
//
// Clients do not pause: how many statements a second they reach is up to the server
// behind. It measures no latencies, which are the gateway's to tell.
package workload
