// Package top shows the statements that keep a gateway busy, live in a terminal: `tare top`.
//
// # Terms
//
//   - A reading is a response of the gateway's HTTP API: the last ten seconds of all statements, and the
//     counters and histograms of the heaviest ones since their start.
//   - A frame is the displayed data: rates, which are the difference of two readings over the window, a
//     time range that ends now. The first frame has the averages since the start of the counters.
//   - Load is the time that calls took per second: the average number of concurrent calls.
//
// # Data flow
//
//	/api/v1/live, /api/v1/statements ──Client──► Reading ──History──► Frame ──► Model ──► screen
//	                                                            keys, size ──────┘
//
// The model is pure: keys, sizes and frames in, text out; its tests are transcripts. Run connects it to the
// terminal and the clock.
//
// # Limits
//
// The package keeps nothing between runs, and draws no charts: the pages do.
package top
