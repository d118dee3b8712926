// Package testmysql starts private servers, of MariaDB or MySQL, for tests, benchmarks and
// demonstrations: each has its own data directory, its own port on 127.0.0.1 and its own
// process, and is gone when the program that started it is gone.
//
// # Terms
//
//   - A template is a data directory that is initialised once for a server's version and
//     kept in the user's cache directory: installing takes a second, copying a few
//     hundredths.
//   - A server is one process of mariadbd, or of mysqld, on a copy of the template.
//   - The shared server is the one that a test binary starts on first use and that gives
//     each test a schema of its own.
//
// # Data flow
//
//	mariadb-install-db ──once a version──> template ──copied──> data directory ──> mariadbd
//	mysqld --initialize ─┘                                                         or mysqld
//	                                                                                  │ stderr
//	Start / New / Shared <──── "ready for connections" or the log's last lines ───────┘
//
// # Life and death
//
// A server is stopped by its process id: by the test's Cleanup, by Close, or, when the
// program dies without either (a panic, a timeout, kill -9), by the kernel, through
// PR_SET_PDEATHSIG. The kernel ties that signal to the thread that forked and clears it
// when the process changes its user, so the fork happens on a locked thread that lives as
// long as the server, and the server is started as its final user instead of being told
// --user. Directories that a killed program left behind are removed by the next start.
//
// # What it does not do
//
// It skips no test: a missing server fails the run and says what to install. It reads no
// configuration of the machine (--no-defaults) and touches no server that it did not start.
package testmysql
