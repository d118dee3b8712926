// Command alter executes one ALTER TABLE with tare alter, gh-ost, spirit and pt-online-schema-change in turn, on a private server of this
// machine, while sysbench's oltp_read_write runs through a tare serve. Each tool gets the same rows. tare alter is given a limit of the
// p99 of live statements, twice that of the traffic alone; the others, and tare-unlimited, do not know it.
//
//	cd bench && go run ./alter -rows 5000000
//	cd bench && go run ./alter -rows 50000 -product mariadb -tools tare,gh-ost
//
// It reports the wall time, the CPU time and the memory of the tool, the median and the maximum of the p99 of transactions per second, and
// the part of the seconds in which it was below twice that of the traffic alone; likewise for statements, as the gateway measures them,
// which is the metric of the limit. -bursts triples the traffic for five seconds of fifteen. The tool "alone" is the traffic without one.
// The definition and the number of rows must be right after each.
//
//	cd bench && go run ./alter -rows 1000000 -alone 60s -bursts -tools tare-unlimited,tare,alone,tare,tare-unlimited,alone
//
// Tools other than tare are taken from PATH, or from a path given by a flag, and one that is missing is reported as not measured:
//
//	go install github.com/github/gh-ost/go/cmd/gh-ost@v1.1.9
//	go install github.com/block/spirit/cmd/spirit@latest    (MySQL 8 or later)
//	apt-get install percona-toolkit
package main
