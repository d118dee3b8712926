// Command fleet measures three instances of tare store over one bucket behind a Thanos querier, beside one
// instance, and beside three of Thanos' own stores.
//
//	go run ./fleet [-blocks 10000] [-series 200] [-bucket DIR] [-only NAME] [-rounds 5] [-load 30s] [-limit 25m]
//
// It writes blocks of two hours, in turn for three values of the external label cluster, into a local directory.
// Each configuration has its own querier and runs alone. For each of them it reports:
//
//   - the time from the start of each instance until it is ready, one instance after the other;
//   - its resident memory after the start, at the end, and the peak;
//   - the latency of each query, the first time and the median of the rounds after it;
//   - bytes read during the queries, by origin, as the instances' metrics count them;
//   - responses under load while one instance is killed and started again: complete, partial with a warning,
//     refused, and the time from the start of the new instance until responses are complete.
//
// All configurations must respond with the same data, and no partial response may lack its warning; otherwise
// the command fails. Partial results of the raw query may have only samples of the complete one.
//
// With -memcached PROGRAM there is another configuration: three instances that share a memcached server. The
// bucket of -bucket is kept for later runs with the same flags.
//
// Writing 10,000 blocks takes minutes. After -limit the command reports the configurations measured so far and fails.
// The page cache of the kernel is not emptied. The first configuration starts again after the others, so that its times
// with a warm page cache are comparable.
package main
