// Package gateway is the MySQL server side of Tare: it accepts clients, logs them in at the
// backend with the backend's own accounts, relays their commands and the responses, knows
// each statement by its digest and plan, and hands out a record of it.
//
// # Terms
//
// A session is one client connection on one backend connection of its own. Its login runs on a
// goroutine; from then on it is a task of package netloop: one coroutine on one of few event loops. A
// turn is one command with its response. A record is what is told of one
// statement, to the query log and to observers. A cause is why a waiting session was woken
// from outside. A hold stops new commands until nothing is under way; a switch takes all
// sessions to the other of two servers within one. A pin is what keeps a session from that.
//
// # Data flow
//
//	client ──► awaitCommand ──► digest ──► plan ──► rules ──► forward ──► backend
//	client ◄── relay, from buffer to buffer: mysqlwire.Response ◄──────── backend
//	              └──► record ──► querylog, live, metrics, observers
//
// A client is greeted by the backend's last greeting, with a challenge and a connection number of
// the gateway. Once its login is read, a connection to the backend is made, and the client gets
// the backend's challenge in an AuthSwitchRequest, so that no password is kept and every account
// works unchanged; TLS is mirrored, so that every method works verbatim. The exceptions, where
// only one leg has TLS, are in auth.go. A client that leaves has mostly not been named to the
// backend, whose connection serves the next login (spares); no connection to a server is closed
// in the middle of a login, because servers count that against the gateway's address. KILL takes
// the numbers of the gateway's greetings (connids.go).
//
// Commands up to Options.StatementMemory are held whole and passed on in one write. Longer
// ones pass through a small buffer in pieces, digested on their way; the last piece waits
// until the rules have been asked.
//
// No session has a timer or a deadline of its own for waiting. Its loop reports a peer that hangs up
// while the session waits for the other one; one sweeper looks for idle sessions; Shutdown interrupts.
// They all do the same: set a cause and a deadline in the past, which wakes the session's read
// (hangup.go).
//
// What waits for other things than the session's own connections would stop all sessions of the loop,
// and runs in netloop.Task.Block: parsing a statement that has no plan, pauses, the login at another
// server, KILL, the log of the process. A session that passes a binary log on leaves the loop.
//
// A hold closes the gate: one word that each session compares with its lane between reading a
// command and passing it on, after it has marked itself busy. So either the session sees the
// gate closed, or who closed it sees the session busy, and no lock is needed. For a switch
// every session makes its own next connection (standby.go); when all have, the gate opens with the new lane and each
// goes over to it. Package gateway/switchover decides, without sockets and clocks; switcher does what it decides.
//
// # Cost
//
// A statement whose plan is cached makes no heap allocation between its first byte read and
// its record in the log: four system calls (two reads, two writes), and the loop's waits, which
// sessions share. With TLS, crypto/tls makes at most one small object for each record it reads. An
// idle connection costs some 13 KiB.
//
// # What it does not do
//
// It pools no connections, splits no reads from writes, retries nothing and never sends a
// statement twice. Compression is not agreed on with either side. What follows a BINLOG DUMP
// is passed through unread. Backends over a unix socket are refused by the configuration:
// unix_socket authentication would see Tare's own user.
//
// Specification: MySQL "Client/Server Protocol" (dev.mysql.com/doc/dev/mysql-server), MariaDB
// "Clients & Connectors: MariaDB Protocol"; the end of each response is in mysqlwire.Response.
package gateway
