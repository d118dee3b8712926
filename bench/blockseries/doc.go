// Command blockseries measures how long a store gateway takes for the series of one block, side by
// side: this project's BenchmarkBlockSeries and that of Thanos, on the same data, in one run.
//
// Thanos' benchmark does not run as it is published: it registers a histogram without a name.
// Two variants of it are made in a temporary copy of its module, of which nothing is kept here:
//
//   - named gives the histogram a name and no registry, and changes nothing else;
//   - closed also closes each query when it is done, as a server does, where the original closes
//     all of them when the benchmark ends, so that its pools never see a buffer twice.
//
// Neither checks a CRC nor reads the chunks that it has loaded, and no series is delivered but the
// first; ours does all three. Thanos adds a label to each series, and has no sharding by hash.
//
//	go run ./blockseries [-count 3] [-benchtime 320x] [-concurrency 1]
//
// The benchmark lines go to standard output, as benchstat reads them.
package main
