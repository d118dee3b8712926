// Package mysqlwire is the MySQL client/server protocol as bytes: one file per packet or
// concept, no sockets.
package mysqlwire
