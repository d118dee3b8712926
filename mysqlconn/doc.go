// Package mysqlconn makes connections of package mysqlwire's bytes: client and server
// sides with handshake, authentication and TLS.
package mysqlconn
