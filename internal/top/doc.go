// Package top shows which statements a gateway is busy with, live in a terminal: `tare top`.
//
// # Terms
//
//   - A reading is what the gateway's HTTP side says at one moment: the last ten seconds of all
//     statements, and the counters of the heaviest ones since they began.
//   - A frame is what is shown: rates, which are the difference of two readings over the window, a
//     time that ends now. The first frame has the averages since the counters began.
//   - Load is the time that calls took in each second: how many ran at once, on average.
//
// # Data flow
//
//	/api/v1/live, /api/v1/statements ──Client──► Reading ──History──► Frame ──► Model ──► screen
//	                                                            keys, size ──────┘
//
// The model is pure: keys, sizes and frames in, text out; its tests are transcripts. Run is the
// shell around it, with the terminal and the clock.
//
// # What it does not do
//
// It keeps nothing between runs, and draws no charts: the pages do. A quantile cannot be had as a
// difference, so p99 of a statement is that since the counters began.
package top
