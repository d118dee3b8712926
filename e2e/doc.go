//go:build e2e

// Package e2e runs the real binary between real programs: MariaDB or MySQL as the backend, and the usual
// client programs. `make e2e` runs it.
//
// # Terms
//
//   - Directly means connected to the server itself, through means by way of `tare serve`. If a program can run
//     both ways, its results directly are the expected ones through Tare.
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
//	HTTP API ──> tare store ──> versitygw, an S3 server, with TLS; fakes of Google's and Azure's APIs
//
//	tare serve ──remote write──> Prometheus, Mimir
//
//	tare serve, generator ──> bucket <── thanos compact
//
// # Limits
//
// The tests measure nothing and assert no time. They install drivers of other languages into temporary
// directories, and no system package: e2e/run does that before, and unpacks a MySQL into .tools. A missing
// program fails its test; MySQL's tests are skipped on machines where MySQL is unavailable, which e2e/run
// determines.
package e2e
