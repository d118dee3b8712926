// Command blockseries measures how long store gateways take to serve the series of one block: it runs this
// project's BenchmarkBlockSeries and that of Thanos, on the same data.
//
// Thanos' benchmark does not run as published: it registers a histogram without a name. The command creates
// two variants of it in a temporary copy of its module:
//
//   - named gives the histogram a name and no registry, and changes nothing else;
//   - closed also closes each query when it is done, as a server does; the original closes all of them when
//     the benchmark ends, so its pools never reuse a buffer.
//
// Neither checks CRCs or reads the loaded chunks, and only the first series is delivered; Tare's does all of
// this. Thanos adds a label to each series, and has no sharding by hash.
//
//	go run ./blockseries [-count 3] [-benchtime 320x] [-concurrency 1]
//
// The benchmark lines are written to standard output, in benchstat's format.
package main
