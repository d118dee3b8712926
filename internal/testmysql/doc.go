// Package testmysql starts private servers, of MariaDB or MySQL, for tests, benchmarks and demonstrations:
// each has a separate data directory, port on 127.0.0.1 and process, and exits when the program that started
// it exits.
//
// # Terms
//
//   - A template is a data directory that is initialized once per server version and kept in the user's cache
//     directory: installing takes a second, copying a few hundredths.
//   - A server is one process of mariadbd, or of mysqld, on a copy of the template.
//   - The shared server is started by a test binary on first use and gives each test a separate schema.
//
// # Data flow
//
//	mariadb-install-db ──once a version──> template ──copied──> data directory ──> mariadbd
//	mysqld --initialize ─┘                                                         or mysqld
//	                                                                                  │ stderr
//	Start / New / Shared <──── "ready for connections" or the log's last lines ───────┘
//
// # Lifetime
//
// A server is stopped by its process id: by the test's Cleanup, by Close or, if the program dies without
// either (a panic, a timeout, kill -9), by the kernel, through PR_SET_PDEATHSIG. The kernel associates that
// signal with the thread that forked and clears it when the process changes its user. So the fork happens on
// a locked thread that lives as long as the server, and the server is started as its final user instead of
// with --user. Directories left behind by a killed program are removed by the next start.
//
// # Limits
//
// The package skips no test: a missing server fails the run with advice on what to install. It reads no
// configuration of the machine (--no-defaults) and uses only servers that it started.
package testmysql
