// Package pool decides which session uses which connection to a server, where sessions share connections between their transactions.
// It performs no I/O and has no clock.
//
// # Terms
//
// A Pool is the connections of one user to one server that the sessions of one event loop share. A class is what connections cannot
// change after their login: a session uses connections of its class only. A pin keeps a session on its connection.
//
// # Data flow
//
//	Ask ──► an idle connection of the class, the most recently used one
//	    ──► GrantOpen: there is room for another connection
//	    ──► GrantReplace: the one that was idle longest is of another class
//	    ──► the queue ──► Put, Drop: the first in the queue is granted the connection, or its room
//
// # Cost
//
// Only tasks of one loop use a pool, one at a time, so it has no lock; its counters may be read by any goroutine. Ask and Put do not
// allocate once the lists have grown.
//
// # State
//
// Movable decides which SET statements can be executed again on another connection with the same result. Variables lists the
// session variables that they may set, and Fixed and Pinning the reason for others: docs/reference/pool.md is generated from them.
package pool
