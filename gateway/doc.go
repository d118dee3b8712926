// Package gateway is the MySQL server side of Tare: it accepts clients, logs them in at the
// backend with the backend's own accounts, relays their commands and the responses, knows
// each statement by its digest and plan, and hands out a record of it.
//
// # Terms
//
// A session is one client connection with a dedicated backend connection. Its login runs on a
// goroutine; afterwards it is a task of package netloop: one coroutine on one of a few event loops.
// A turn is one command with its response. A record describes one statement to the query log and
// the observers. A cause is the reason why a waiting session was woken from outside. A hold stops
// new commands until none is in progress; a switch moves all sessions to the other of two servers
// within a hold. A pin prevents the move of a session.
//
// # Data flow
//
//	client ──► awaitCommand ──► digest ──► plan ──► rules ──► forward ──► backend
//	client ◄── relay, from buffer to buffer: mysqlwire.Response ◄──────── backend
//	              └──► record ──► querylog, live, metrics, observers
//
// A client is greeted by the backend's last greeting, with a challenge and a connection number of
// the gateway. Once its login is read, a connection to the backend is opened, and the client gets
// the backend's challenge in an AuthSwitchRequest, so that no password is kept and every account
// works unchanged; TLS is mirrored, so that every method works verbatim. The exceptions, where
// only one leg has TLS, are in auth.go. A client that leaves has mostly not been named to the
// backend, whose connection serves the next login (spares); no connection to a server is closed
// in the middle of a login, because servers count that against the gateway's address. KILL takes
// the numbers of the gateway's greetings (connids.go).
//
// Commands up to Options.StatementMemory are buffered whole and forwarded in one write. Longer
// ones pass through a small buffer in pieces, digested on their way; the last piece waits
// until the rules have been applied.
//
// No session has a timer or a deadline for its waits. Its loop reports a peer that hangs up while
// the session waits for the other one; a single sweeper finds idle sessions; Shutdown interrupts.
// Each of them sets a cause and a deadline in the past, which wakes the session's read (hangup.go).
//
// A wait for anything but the session's connections would stop all sessions of the loop. Such work
// runs in netloop.Task.Block: parsing a statement that has no plan, pauses, the login at another
// server, KILL, the log of the process. A session that relays a binary log leaves the loop.
//
// A hold closes the gate: one word that each session compares with its lane between reading a
// command and forwarding it, after it has marked itself busy. So either the session sees the
// gate closed, or the goroutine that closed it sees the session busy, and no lock is needed. For a
// switch every session opens its next connection (standby.go); when all have, the gate opens with
// the new lane and each session moves to it. Package gateway/switchover decides, without sockets
// and clocks; switcher carries out its decisions.
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
