// Package mysqlconn opens and serves MySQL connections on top of package mysqlwire: client and server sides
// with handshake, authentication and TLS.
//
//	c, err := mysqlconn.Dial(ctx, mysqlconn.Config{Addr: "127.0.0.1:3306", User: "app", Password: secret})
//	result, err := c.Query(ctx, "SELECT id FROM t", func(row mysqlwire.TextRow) error { … })
//
// # Terms
//
//   - A Conn is one side of a connection: the socket, the bytes read and not yet consumed, the
//     packets appended and not yet written, and the sequence number.
//   - A leg is one of a proxy's two connections, to its client and to its server. It is plain if
//     it is not encrypted.
//   - A Client is a Conn after Dial has logged in: it sends statements and reads rows.
//   - A method is a way to prove a password, named by its plugin; a challenge is the server's
//     random bytes in it, a response the client's proof.
//
// # Data flow
//
//	            ┌──────────────── Conn ─────────────────┐
//	socket ───► Fill ──► Buffered, Discard  (bytes)     │ a relay: packets pass unchanged
//	            │   └──► ReadMessage        (payloads)  │ a login, a client
//	socket ◄─── Flush ◄─ AppendMessage      (payloads)  │
//	socket ◄─── Write                       (bytes)     │
//	            └─ StartTLS, Upgrade: TLS in between ───┘
//
//	Config ──► Dial ──► greeting ──► TLS ──► response ──► OK ──► Client ──► Exec, Query
//	                                          └─ one file per method:
//	                                             auth_native, auth_sha2, auth_rsa, auth_ed25519, auth_parsec
//
// The responses are exported functions of password and challenge, without sockets: a gateway uses them if
// only one of its legs has TLS.
//
// # Cost
//
// Conn reads and writes without allocating once its buffers have their size, apart from crypto/tls; Rows.Next
// and Events.Next return views of the read buffer and allocate only to grow it.
//
// # Limits
//
// The package does not detect the end of responses in a relay: mysqlwire.Response does. It does not accept
// logins: the gateway relays them to the server that has the accounts. It has no pool, does not reconnect,
// and does not negotiate compression. A Client has no transactions, no result buffering and no conversion of
// values: it is meant for control connections and tests, and is not a driver for database/sql.
//
// # Specification
//
//   - MySQL Internals, "Client/Server Protocol": connection phase, authentication methods.
//   - MariaDB, "Client/Server Protocol" and "Authentication Plugin - ed25519" and "- PARSEC".
//   - RFC 8032 section 5.1.6 (Ed25519), RFC 8017 section 7.1 (RSAES-OAEP).
package mysqlconn
