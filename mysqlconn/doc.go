// Package mysqlconn makes connections of package mysqlwire's bytes: client and server sides with
// handshake, authentication and TLS.
//
// # Terms
//
//   - A Conn is one side of a connection: the socket, the bytes read and not yet consumed, the
//     packets appended and not yet written, and the sequence number.
//   - A leg is one of a proxy's two connections, to its client and to its server. It is plain
//     when nothing encrypts it.
//   - A Client is a Conn after Dial has logged in: it sends statements and reads rows.
//   - A method is a way to prove a password, named by its plugin; a challenge is the server's
//     random part in it, an answer the client's.
//
// # Data flow
//
//	            ┌──────────────── Conn ─────────────────┐
//	socket ───► Fill ──► Buffered, Discard  (bytes)     │ a relay: packets are left as they came
//	            │   └──► ReadMessage        (payloads)  │ a login, a client
//	socket ◄─── Flush ◄─ AppendMessage      (payloads)  │
//	socket ◄─── Write                       (bytes)     │
//	            └─ StartTLS, Upgrade: TLS in between ───┘
//
//	Config ──► Dial ──► greeting ──► TLS ──► answer ──► OK ──► Client ──► Exec, Query
//	                                          └─ one file a method:
//	                                             auth_native, auth_sha2, auth_rsa, auth_ed25519
//
// The answers are exported functions of password and challenge, without sockets: a gateway
// whose legs differ in TLS answers for its client with them.
//
// # What it does not do
//
// It knows no ends of responses: that is mysqlwire.Response, led by who relays. It does not
// accept logins: the gateway relays them to the server that knows the accounts. It keeps no
// pool, does not reconnect, and does not compress. A Client has no transactions, no result
// buffering and no conversion of values: it is for control connections and tests, not a driver
// for database/sql.
//
// # Specification
//
//   - MySQL Internals, "Client/Server Protocol": connection phase, authentication methods.
//   - MariaDB, "Client/Server Protocol" and "Authentication Plugin - ed25519".
//   - RFC 8032 section 5.1.6 (Ed25519), RFC 8017 section 7.1 (RSAES-OAEP).
package mysqlconn
