// Package gateway is the MySQL server side of Tare: it accepts clients, logs them in at the backend with the
// backend's accounts, relays commands and responses, identifies each statement by its digest and plan, and
// records it.
//
// Usage: create a Server by New, pass a listener to Server.Serve, and stop it by Server.Shutdown. Observers
// and the query log receive the records; the package example relays a client.
//
// # Terms
//
// A session is one client connection with a dedicated backend connection, unless sessions share connections (Options.Pool). Its login runs on a goroutine;
// afterwards it is a task of package netloop: one coroutine on one of a few event loops. A turn is one
// command with its response. A record describes one statement to the query log and the observers. A cause is
// the reason why a waiting session was woken from outside. A pause stops new commands until none
// is in progress; a switch moves all sessions to the other of two servers within a pause. A pin prevents the
// move of a session.
//
// # Data flow
//
//	client ──► awaitCommand ──► digest ──► plan ──► rules ──► forward ──► backend
//	client ◄── relay, from buffer to buffer: mysqlwire.Response ◄──────── backend
//	              └──► record ──► querylog, live, metrics, observers
//
// When a client connects, the gateway opens a connection to the backend and relays its greeting, with the
// connection id and the challenge: no password is kept, every account works unchanged, and the id names the
// session in every statement. TLS is mirrored, so every method works verbatim; auth.go has the exceptions where
// only one of the two connections uses TLS. If a client disconnects or is silent, its backend connection serves
// the next client (spares) or logs in with a name without an account. The gateway closes no connection in the
// middle of a login, because servers count that against its address. Only a session that has moved has another
// id than its client knows (connids.go).
//
// The end of a connection is relayed too. If the backend closes it, the client's is closed without a packet. If
// the client closes its sending side, its commands are executed, and the backend's is closed after the last one
// (relayer.go).
//
// Commands up to Options.StatementMemory are buffered whole and forwarded in one write. Longer ones pass
// through a small buffer in pieces and are digested on the way; the last piece waits until the rules have
// been applied.
//
// Sessions have no timers and no deadlines for their waits. The loop reports a peer that hangs up while the
// session waits for the other one; a single sweeper finds idle sessions; Shutdown interrupts. Each of them
// sets a cause and a deadline in the past, which wakes the session's read (relayer.go).
//
// A wait for anything but the session's connections would stop all sessions of the loop. Such work runs in
// netloop.Task.Block: parsing a statement that has no plan, pauses, the login at another server, KILL, the
// log of the process. A session that relays a binary log leaves the loop.
//
// A pause closes the gate: one word that each session compares with its lane between reading a command and
// forwarding it, after it has marked itself busy. So either the session sees the gate closed, or the
// goroutine that closed it sees the session busy; no lock is required. For a switch every session opens its
// next connection (switch_connect.go); when all have, the gate opens with the new lane and each session moves to it.
// Package internal/gateway/switchover decides, without sockets and clocks; switcher carries out its decisions.
//
// With Options.Pool the sessions of some users share connections: a session borrows one for a command and returns it after the last
// command of a transaction. Before it is lent, a connection is brought into the session's state: the default schema and the SET
// statements that package pool takes for movable. A statement that leaves anything else pins the session to its connection. The
// connections belong to the loop: its keeper task owns those that no session uses.
//
// # Cost
//
// A statement whose plan is cached allocates nothing on the heap between its first byte read and its record
// in the log. It costs four system calls (two reads, two writes), and its part of the loop's waits. With TLS,
// crypto/tls allocates at most one small object for each record it reads. An idle connection costs some 7
// KiB.
//
// # What it does not do
//
// The gateway does not split reads from writes, retry, or send a statement twice. It does
// not negotiate compression with either side. The stream after a BINLOG DUMP is passed through uninspected.
// The configuration refuses backends on a Unix socket: unix_socket authentication would see Tare's user.
//
// Specification: MySQL "Client/Server Protocol" (dev.mysql.com/doc/dev/mysql-server), MariaDB
// "Clients & Connectors: MariaDB Protocol"; the end of each response is in mysqlwire.Response.
package gateway
