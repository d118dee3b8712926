// Command relay measures what a MySQL statement costs on its way through a proxy: directly,
// through HAProxy in TCP mode, through the plainest Go forwarder and through tare serve with
// digest, plan cache and log file, side by side, in turn, on one machine.
//
//	go run ./relay -rounds 5 -seconds 10 -json relay.json -bench relay.txt
//	go run ./relay -count
//	go run ./relay -history -rounds 10 -threads 8
//
// # Terms
//
//   - A way is a road from sysbench to the database: direct, haproxy, forwarder or tare.
//   - A cell is one workload at one number of threads. Its proxies are started for it and
//     stopped after it.
//   - A round is one run of sysbench over each way, in an order that rotates.
//
// # Data flow
//
//	sysbench ──> direct ────────────────────> mariadbd (private, 100,000 rows)
//	         ──> haproxy|forwarder|tare ────> mariadbd
//	                      │ CPU, context switches, memory: the kernel's accounts
//	                      └──> rounds ──> medians (Markdown), rounds (JSON), benchstat lines
//
// # What is measured, and with what
//
// Readings are taken when sysbench has connected all its threads ("Threads started!") and
// again when they have ended, so that logging in is no part of the figures.
//
//   - CPU time is the proxy's process clock (clock_getcpuclockid): the scheduler's run time
//     of all threads, also of ended ones, in nanoseconds. It is what the first fields of
//     /proc/PID/task/*/schedstat add up to, read at one moment and without the rest of a
//     running thread's slice missing.
//   - User and system time divide it in the ratio of the kernel's ticks of 10 ms, so they
//     want rounds of seconds.
//   - Context switches and the time spent waiting for a CPU are summed over
//     /proc/PID/task/*/status and schedstat; threads that end in between take theirs along.
//   - Latencies are quantiles of sysbench's histogram, whose steps are 1.8 %. For
//     oltp_read_only they are those of a transaction of 16 statements.
//   - Ratios to HAProxy are medians of the rounds' own ratios, as two runs of one round are
//     nearer to each other in time than two medians.
//   - What other processes used of the machine meanwhile is reported with the medians: with
//     more than a few percent the absolute figures are worth little.
//
// sysbench, the proxy and the server share the machine's CPUs, as they do on a small host.
//
// With -count it measures no time: it counts system calls by name (strace -c -f, which slows
// the proxy down), and in runs of their own and undisturbed all system calls, context
// switches and instructions (perf stat, where there is one that is allowed to).
//
// With -history the ways are tare alone: bare, with a log, with a history in a bucket, and with both; ratios
// are to bare.
//
// With -against the ways are another tare binary and tare, started alike; ratios are to the other binary.
//
// # What it does not do
//
// It compares no TLS, no prepared statements and no network but the loopback interface.
package main
