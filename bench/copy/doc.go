// Command copy copies one table between two private MariaDB servers on this machine: with tare copy, with
// mariadb-dump piped into mariadb, and with mydumper and myloader. The tools alternate within a round, in an
// order that rotates; after each copy, definition and rows must be equal.
//
// CPU time is that of the tool's processes, without the servers'.
//
//	cd bench && go run ./copy -rows 2000000 -rounds 3
//	cd bench && go run ./copy -ways tare -workers 1,2,4,8
//
// With -files it compares dumping the table to files and loading it from there, each measured alone: tare copy, and mydumper and
// myloader with and without compression.
//
//	cd bench && go run ./copy -files
//
// With -changes it reports how fast tare copy --follow catches up: changes applied per second, compared with
// rows copied per second, after sysbench has changed the table without a follower.
//
//	cd bench && go run ./copy -changes 2000000 -workers 1,4
//
// With -live it reports the effect on live traffic: queries per second and p99 of sysbench's oltp_read_only
// on the source, directly alone and during a copy, then through tare serve alone, during a copy, and during a
// copy with --max-p99 of twice the p99 that the gateway reported for the traffic alone. A copy that finishes
// within a phase is started again. -trace and -svg record the last phase second by second: the latency of the
// traffic, the rate that the throttle allowed and the reason, and the rate of the copy.
//
//	cd bench && go run ./copy -live 30s -live-rate 150 -rows 1000000 -trace throttle.csv -svg ../docs/images/throttle.svg
package main
