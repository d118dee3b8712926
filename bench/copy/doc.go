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
package main
