// Package session opens every connection of Tare's to a server: it logs in, gives the session the settings that
// Tare depends on, and reads each of them back.
//
//	c, err := session.Open(ctx, cfg)
//	err = session.Set(ctx, c, session.Int("lock_wait_timeout", 3))
//
// A session inherits the server's global variables, which administrators change, and then what init_connect or
// a proxy changes. Some variables shorten results (sql_select_limit), change their text (sql_mode, time_zone),
// end statements (max_statement_time) or leave transactions open (autocommit). The table in this package has
// each variable that can, with its value and the reason. Open sets all of them and reads them back in the same
// round trip; one that did not take is an error with its name.
//
// Besides, the package has the statements that several rooms send over such sessions: single values, the server's identity, its binary
// log's settings and position, limits of locks; names and values in SQL; and the kinds of servers' errors.
//
// # Terms
//
//   - A setting is a session variable of a server.
//   - A restricted setting can be set only with a privilege: it is set only if its value differs.
//   - A bare connection has no settings, for commands whose result does not depend on any: KILL, COM_PING.
//
// # Data flow
//
//	Config ─► mysqlconn.Dial ─► SET, SELECT (one round trip) ─► values compared ─► Client
//	             table ─ by kind of server ──┘   └─ without the variables that the server does not have
package session
