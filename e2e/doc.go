//go:build e2e

// Package e2e runs the real binary between real programs: MariaDB or MySQL behind it, and before it
// the programs that people use. `make e2e` runs it.
//
// # Terms
//
//   - Directly means to the server itself, through means by way of `tare serve`. Wherever a
//     program can run both ways, what it does directly is what it has to do through.
//   - A tare is one process of the binary, built once for all tests, on free ports of
//     127.0.0.1. It ends with the test that started it, by SIGTERM, and with exit code 0.
//
// # Data flow
//
//	go-sql-driver's own tests ┐
//	mariadb, mariadb-dump     │              ┌──────> mariadbd with TLS
//	sysbench                  ├──> tare serve┘            │
//	PyMySQL, connector-python │        │                  │
//	mysql2, Connector/J       ┘     its log            directly: the reference
//
//	go-sql-driver's own tests, sysbench, mysql, mariadb, raw packets ──> tare serve ──> mysqld
//	MySQL, MariaDB ──> tare copy, tare rowstream ──> MySQL, MariaDB
//
//	commands of README.md, docs and deploy ──> a root of their own: empty directories, host names, tare, MariaDB
//
//	HTTP API ──> tare store ──> versitygw, an S3 server, with TLS
//
// # What it does not do
//
// It measures nothing and asserts no time. It installs drivers of other languages into
// temporary directories, and no system package: e2e/run does that before, and unpacks a MySQL
// into .tools. A program that is missing fails its test; MySQL's tests are skipped on machines
// where there can be none, which e2e/run finds out.
package e2e
