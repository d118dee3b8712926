package main

import "io"

// measureActiveSeries repeats grafana/mimir#7665, with the benchmarks of that name of the baseline and of the
// product, which have the published cases.
func measureActiveSeries(old, new, out io.Writer, _ string) error {
	b := goBenchmark{
		name: "BenchmarkActiveSeriesMiddlewareMergeResponses", old: "baseline/activeseries", new: "frontend",
		time: "100ms", count: 6,
	}
	return b.run(old, new, out)
}
