// Command relay measures the cost of a MySQL statement through proxies: directly, through HAProxy in TCP
// mode, through the simplest Go forwarder and through tare serve with digest, plan cache and log file,
// alternating on one machine.
//
//	go run ./relay -rounds 5 -seconds 10 -json relay.json -bench relay.txt
//	go run ./relay -count
//	go run ./relay -history -rounds 10 -threads 8
//
// # Terms
//
//   - A way is a connection from sysbench to the database: direct, threads (direct, to a MariaDB with a thread
//     pool), haproxy, router, sharing (MySQL Router with connection sharing), forwarder or a configuration of
//     tare (tare: with a log; bare: without log and digests; log; history: in a bucket; both; pool: both, with
//     eight shared connections; piped: with eight statements in flight on each). -ways selects them.
//   - A cell is one workload at one number of threads. Its proxies are started for it and stopped after it.
//   - A round is one run of sysbench over each way, in an order that rotates.
//
// # Data flow
//
//	sysbench ──> direct ────────────────────> mariadbd (private, 100,000 rows)
//	         ──> haproxy|forwarder|tare ────> mariadbd
//	                      │ CPU, context switches, memory: the kernel's accounts
//	                      └──> rounds ──> medians (Markdown), rounds (JSON), benchstat lines
//
// # Measurements
//
// Readings are taken when sysbench has connected all its threads ("Threads started!") and again when they
// have finished, so logins are excluded.
//
//   - CPU time is the proxy's process clock (clock_getcpuclockid): the scheduler's run time of all threads,
//     including those that have exited, in nanoseconds. It equals the sum of the first fields of
//     /proc/PID/task/*/schedstat, but is read at one point in time and includes the current slice of running
//     threads.
//   - User and system time divide it in the ratio of the kernel's ticks of 10 ms, so they require rounds of
//     seconds.
//   - Context switches and the time spent waiting for a CPU are sums over /proc/PID/task/*/status and
//     schedstat; they exclude threads that exit in between.
//   - Latencies are quantiles of sysbench's histogram, whose steps are 1.8 %. For oltp_read_only they are
//     those of a transaction of 16 statements.
//   - Ratios to HAProxy are medians of the ratios within rounds, since two runs of one round are closer in
//     time than two medians.
//   - The CPU usage of other processes is reported with the medians: above a few percent, absolute values are
//     not reliable.
//
// sysbench, the proxy and the server share the machine's CPUs, as on a small host.
//
// With -count it measures no time: it counts system calls by name (strace -c -f, which slows the proxy down),
// and in separate, undisturbed runs all system calls, context switches and instructions (perf stat, if
// available and permitted).
//
// With direct and haproxy among the ways, the report judges tare's ratios to HAProxy by their goals: the median
// of the rounds with its 95 % interval, by order statistics. A row counts only if the direct way has at least
// 1.2 times the best proxy's throughput: a saturated server makes all ratios 1.
//
// With -history the ways are tare alone: bare, with a log, with a history in a bucket, and with both; ratios
// are to bare.
//
// With -tls both legs of every way are encrypted. HAProxy expects TLS from the first byte, where MySQL has a
// greeting in clear: another HAProxy encrypts and decrypts around it. Its CPU time is not counted, but
// throughput and latency of that way suffer from it.
//
// With -collect tare is forced to collect garbage at an interval, which it would do every two minutes otherwise.
//
// With -against the ways are another tare binary and tare, started with the same flags; ratios are to the
// other binary.
//
// With -idle it measures no time either: it opens that many connections through tare, each of which executes one
// statement, and reports the heap, the stacks, the resident bytes and the kernel's memory for sockets. The server
// runs a thread pool. Each connection requires two open files of tare, so 10,000 require a limit above 20,100.
//
// With -server-memory the server is restarted for each cell and way, before the rounds, and the maximum of its resident
// bytes during a run is a column of the table. Without the restart it would include memory of the ways before.
//
// With -slow it runs no sysbench: its clients read rows by their primary key, through a view that makes one row in a
// hundred take 20 ms. It reports the latencies of the fast reads if no statement is slow, if one in a hundred is a slow one
// of another digest, and if it is a slow one of the same digest.
//
// # Limits
//
// It measures no prepared statements and no network but the loopback interface.
package main
