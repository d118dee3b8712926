// Command copy moves one table between two private MariaDB servers on this machine: by tare
// copy, by mariadb-dump piped into mariadb, and by mydumper and myloader. In each round the
// ways take their turn, and the order rotates; after each, definition and rows must be equal.
//
// CPU is that of the tool's own processes, without the servers'.
//
//	cd bench && go run ./copy -rows 2000000 -rounds 3
//	cd bench && go run ./copy -ways tare -workers 1,2,4,8
//
// With -changes it tells how fast tare copy --follow catches up: changes applied a second,
// beside rows copied a second, after sysbench has changed the table while nobody followed.
//
//	cd bench && go run ./copy -changes 2000000 -workers 1,4
//
// With -live it tells what live traffic feels: queries a second and p99 of sysbench's
// oltp_read_only on the source, directly alone and beside a copy, then through tare serve alone,
// beside a copy, and beside a copy with --max-p99 twice the p99 that the gateway told of the
// traffic alone. In each phase the copy begins anew as often as it ends. -trace and -svg take
// the last phase second by second: what the traffic felt, what share the throttle allowed and why,
// and how fast rows were copied.
//
//	cd bench && go run ./copy -live 30s -live-rate 150 -rows 1000000 -trace throttle.csv -svg ../docs/images/throttle.svg
package main
